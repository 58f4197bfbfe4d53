# Reads what a run wrote for other programs, by these programs' own packages.
# SPDX-License-Identifier: Apache-2.0
# Usage: read_trackers.py RUN. Prints "NAME ok", "NAME skipped: ..." or fails.
import glob
import json
import math
import os
import struct
import sys
import zlib

run = sys.argv[1]
lines = [json.loads(line) for line in open(os.path.join(run, "metrics.jsonl"))]
steps = {line["step"]: line for line in lines if line["kind"] == "step"}
assert steps, "no steps"


def pandas_reads():
    import pandas as pd

    table = pd.read_json(os.path.join(run, "metrics.jsonl"), lines=True).query("kind == 'step'")
    assert list(table["loss"]) == [steps[step]["loss"] for step in sorted(steps)]
    assert table["wall_time"].is_monotonic_increasing
    assert str(table["wall_time"].dtype).startswith("datetime64"), table["wall_time"].dtype
    flat = [name for name in table.columns if name.startswith("communication.")]
    assert flat and all(table[name].dtype.kind == "f" for name in flat), flat


def tensorboard_reads():
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import metadata

    events = EventAccumulator(run, size_guidance={"scalars": 0})
    events.Reload()
    for point in events.Scalars("train/loss"):
        assert point.value == struct.unpack("f", struct.pack("f", steps[point.step]["loss"]))[0]
    assert [p.step for p in events.Scalars("train/loss")] == sorted(steps)
    text = events.Tensors("deck")[0].tensor_proto.string_val[0].decode()
    assert "learning_rate" in text
    summary = events.summary_metadata["_hparams_/session_start_info"]
    settings = metadata.parse_session_start_info_plugin_data(summary.plugin_data.content)
    assert settings.hparams["run.seed"].number_value == 1


def mlflow_reads():
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    from mlflow.tracking import MlflowClient

    client = MlflowClient("file:" + os.path.abspath(os.path.join(run, "mlruns")))
    experiment = client.get_experiment_by_name("trireme").experiment_id
    (found,) = client.search_runs([experiment])
    assert found.info.status == "FINISHED", found.info.status
    assert found.data.params["run.steps"] == str(max(steps))
    history = client.get_metric_history(found.info.run_id, "train/loss")
    assert [(p.step, p.value) for p in history] == [(s, steps[s]["loss"]) for s in sorted(steps)]


def wandb_records(path):
    """Records of a log, by the package's own protocol buffers."""
    from wandb.proto import wandb_internal_pb2

    data = open(path, "rb").read()
    assert data[:7] == b":W&B\xe1\xbe\x00", data[:7]
    at, record = 7, b""
    while at < len(data):
        room = 32768 - at % 32768
        if room < 7:
            at += room
            continue
        checksum, length, kind = struct.unpack("<IHB", data[at : at + 7])
        part = data[at + 7 : at + 7 + length]
        assert checksum == zlib.crc32(part, zlib.crc32(bytes([kind])))
        record += part
        at += 7 + length
        if kind in (1, 4):
            yield wandb_internal_pb2.Record.FromString(record)
            record = b""


def wandb_reads():
    import wandb  # noqa: F401

    losses, ended, settings = {}, 0, {}
    for path in sorted(glob.glob(os.path.join(run, "wandb", "offline-run-*", "run-*.wandb"))):
        for record in wandb_records(path):
            if record.WhichOneof("record_type") == "history":
                items = {i.nested_key[0]: json.loads(i.value_json) for i in record.history.item}
                assert items["_step"] == record.history.step.num
                if "train/loss" in items:
                    losses[items["_step"]] = items["train/loss"]
            elif record.WhichOneof("record_type") == "run":
                settings = {i.key: json.loads(i.value_json) for i in record.run.config.update}
            elif record.WhichOneof("record_type") == "exit":
                ended += 1
    assert losses == {step: steps[step]["loss"] for step in steps}
    assert settings["run.steps"] == max(steps) and ended >= 1


failed = False
for name, read in (("pandas", pandas_reads), ("tensorboard", tensorboard_reads),
                   ("mlflow", mlflow_reads), ("wandb", wandb_reads)):
    try:
        read()
        print(name, "ok")
    except ImportError as error:
        print(name, "skipped:", error)
    except Exception as error:  # pylint: disable=broad-except
        print(name, "FAILED:", type(error).__name__, error)
        failed = True
assert all(math.isfinite(line["loss"]) for line in steps.values())
sys.exit(failed)
