"""Reads what a run of Trireme leaves: metrics, checkpoints and decks.

    import trireme_read

    steps = trireme_read.metrics("runs/quickstart")          # a flat pandas.DataFrame
    weights = trireme_read.state_dict("runs/quickstart")     # {name: numpy.ndarray}
    deck = trireme_read.deck("runs/quickstart")              # {"model": {"layers": 4, ...}, ...}

One file, to be copied or put on PYTHONPATH; nothing of Trireme needs it. metrics() wants pandas,
state_dict() h5py, deck() Python 3.11 or tomli.
"""
# SPDX-License-Identifier: Apache-2.0

import json
import os

__all__ = ["metrics", "state_dict", "tensors", "deck", "checkpoint_path", "attributes"]


def metrics(run, kind="step"):
    """Lines of metrics.jsonl of one kind ("step", "validation", "checkpoint", "samples",
    "event"; None: all), a row each, as a pandas.DataFrame with a column a number, such as
    "communication.tensor.all_gather.bytes". `run`: a run's directory, or the file.
    Lines that are damaged, as the last one of a run that was killed, are left out."""
    import pandas

    path = os.path.join(run, "metrics.jsonl") if os.path.isdir(run) else run
    rows = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if not isinstance(record, dict):
                continue
            record.setdefault("kind", _kind(record))  # of versions before 0.2
            if kind is not None and record["kind"] != kind:
                continue
            rows.append(_flat(record))
    table = pandas.DataFrame(rows)
    if "wall_time" in table:
        table["wall_time"] = pandas.to_datetime(table["wall_time"], unit="s", utc=True)
    return table


def _kind(record):
    for key, kind in (("loss", "step"), ("validation_loss", "validation"),
                      ("checkpoint_seconds", "checkpoint"), ("samples", "samples")):
        if key in record:
            return kind
    return "event"


def _flat(record, prefix=""):
    row = {}
    for key, value in record.items():
        if isinstance(value, dict):
            row.update(_flat(value, prefix + key + "."))
        else:
            row[prefix + key] = value
    return row


def checkpoint_path(path):
    """The folder of a checkpoint: a step's folder, or a run's newest."""
    if os.path.exists(os.path.join(path, "manifest.json")):
        return path
    folder = os.path.join(path, "checkpoints")
    folder = folder if os.path.isdir(folder) else path
    steps = sorted(name for name in os.listdir(folder)
                   if name.startswith("step-")
                   and os.path.exists(os.path.join(folder, name, "manifest.json")))
    if not steps:
        raise FileNotFoundError(f"{path}: no checkpoint")
    return os.path.join(folder, steps[-1])


def _views(path):
    """The file in which a checkpoint's tensors are whole. It is made after the checkpoint."""
    checkpoint = checkpoint_path(path)
    views = os.path.join(checkpoint, "checkpoint.h5")
    if not os.path.exists(views):
        raise FileNotFoundError(f"{views} is not made yet, or the run died before: "
                                f"trireme inspect {checkpoint} --make-views makes it")
    return views


def tensors(path, group="model"):
    """Yields (name, numpy.ndarray) of each tensor of a checkpoint, whole, whatever mesh wrote it:
    of "model", or "optimizer/moment1" and the like. bfloat16 comes as float32."""
    import h5py

    with h5py.File(_views(path), "r") as file:
        found = []
        file[group].visititems(
            lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
        for name in found:
            yield name, _numbers(file[group][name])


def state_dict(path, group="model", torch=False):
    """The tensors of a checkpoint by their Hugging Face names; torch=True: as torch tensors, ready
    for load_state_dict()."""
    result = dict(tensors(path, group))
    if torch:
        import torch as library

        result = {name: library.from_numpy(value) for name, value in result.items()}
    return result


def _numbers(dataset):
    import numpy

    kind = dataset.id.get_type()
    is_bfloat16 = (kind.get_class() == 1 and kind.get_size() == 2  # H5T_FLOAT
                   and kind.get_fields()[1:3] == (7, 8))
    if not is_bfloat16:
        return dataset[()]
    # h5py has no type for it: as fp32 the library converts it, exactly.
    values = numpy.empty(dataset.shape, dtype=numpy.float32)
    dataset.read_direct(values)
    return values


def attributes(path):
    """The attributes of a checkpoint, such as step and tokens, but for its deck."""
    import h5py

    with h5py.File(_views(path), "r") as file:
        return {key: value.decode() if isinstance(value, bytes) else value
                for key, value in file.attrs.items() if key != "deck"}


def deck(path):
    """The deck in force as a dict of sections: of a run's directory, or of any deck."""
    try:
        import tomllib
    except ImportError:
        import tomli as tomllib

    path = os.path.join(path, "deck.toml") if os.path.isdir(path) else path
    with open(path, "rb") as file:
        return tomllib.load(file)
