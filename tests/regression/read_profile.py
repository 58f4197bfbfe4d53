# Reads the trace of a rank: ranges nest and cover the steps, collectives end.
# SPDX-License-Identifier: Apache-2.0
# Usage: read_profile.py FILE RANK STEPS NAMES...  STEPS: all that are there, as "3,4"; NAMES: of events.
import json
import sys

path, rank, steps, wanted = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
trace = json.load(open(path))
events = trace["traceEvents"]
assert trace["otherData"]["dropped_events"] == 0
assert all(event["pid"] == rank for event in events)
names = {event["name"] for event in events}
assert not set(wanted) - names, (set(wanted) - names, names)
rows = [event for event in events if event["name"] == "process_name"]
assert len(rows) == 1 and rows[0]["args"]["name"].startswith("rank %d of 2, " % rank), rows


def nanoseconds(event):
    begin = round(event["ts"] * 1000)
    return begin, begin + round(event["dur"] * 1000)


# Ranges of a thread nest.
ranges = [event for event in events if event["ph"] == "X"]
for thread in {event["tid"] for event in ranges}:
    open_ends = []
    for begin, end in sorted(
        (nanoseconds(event) for event in ranges if event["tid"] == thread),
        key=lambda span: (span[0], -span[1]),
    ):
        while open_ends and open_ends[-1] <= begin:
            open_ends.pop()
        assert not open_ends or end <= open_ends[-1], "ranges overlap"
        open_ends.append(end)

# The phases of a step cover it.
of_steps = [event for event in ranges if event["name"] == "step"]
assert ",".join(str(event["args"]["step"]) for event in of_steps) == steps, of_steps
phases = {"data", "count of tokens", "forward and backward", "rest of the reductions", "optimizer"}
for step in of_steps:
    first, last = nanoseconds(step)
    covered, at, inside = 0, first, set()
    for begin, end, name in sorted(
        nanoseconds(event) + (event["name"],)
        for event in ranges
        if event["tid"] == step["tid"] and event is not step
    ):
        if begin < first or end > last:
            continue
        inside.add(name)
        covered += max(0, end - max(at, begin))
        at = max(at, end)
    assert covered >= 0.98 * (last - first), (covered, last - first)
    assert phases <= inside, inside

# Actions name their microbatch; collectives in flight begin and end.
actions = [event for event in ranges if event["name"] in ("forward", "backward", "send", "receive")]
assert all("bytes" in e["args"] or {"microbatch", "stage"} <= set(e["args"]) for e in actions)
begun = {e["id2"]["local"]: e for e in events if e["ph"] == "b"}
ended = {e["id2"]["local"]: e for e in events if e["ph"] == "e"}
assert begun and set(begun) == set(ended)
for key, event in begun.items():
    assert event["name"] == ended[key]["name"] and event["ts"] <= ended[key]["ts"]
    assert event["args"]["bytes"] > 0 and event["args"]["group"] and event["args"]["dtype"]
print(path, len(events), "events")
