"""The Chrome trace: all records with their times, as JSON that Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
import os
from typing import Any

from . import sites
from .lines import line_of
from .recording import Recording


def events_of(recording: Recording) -> list[dict[str, Any]]:
    """One complete event for each record, and the names of process and threads."""
    process, threads = os.getpid(), {recording.thread: 1}
    objects = recording.objects
    events: list[dict[str, Any]] = []
    for record in recording.records.tolist():
        begin, end, number, instruction, code, o, thread, inner, index = record
        site = recording.sites[number]
        tid = threads.setdefault(thread, len(threads) + 1)
        name, args, thing = site.name, {}, objects.get(o)
        if site.names_itself:
            name = getattr(thing, "name", site.name)
        elif site.kind == sites.MODULE and thing is not None:
            name = type(thing).__name__
        if site.kind == sites.INSTRUCTION:
            name = f"instruction {index}"
        found = objects.get(code)
        if found is not None:
            line = line_of(found, instruction)
            args = {"line": line.short, "code": line.text}
        if inner:
            args["kernel_us"] = inner / 1e3
        begin = max(begin, recording.begin)
        event = {"name": name, "cat": site.kind, "ph": "X", "ts": (begin - recording.begin) / 1e3}
        events.append(event | {"dur": max(end - begin, 0) / 1e3, "pid": process, "tid": tid, "args": args})
    events.sort(key=lambda event: (event["tid"], event["ts"], -event["dur"]))
    names: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": process, "tid": 0, "args": {"name": "extempo"}}
    ]
    for tid in threads.values():
        title = "main" if tid == 1 else f"thread {tid - 1}"
        names.append({"name": "thread_name", "ph": "M", "pid": process, "tid": tid, "args": {"name": title}})
    return names + events


def json_of(recording: Recording, metadata: dict[str, str]) -> str:
    """The file."""
    return json.dumps({"traceEvents": events_of(recording), "displayTimeUnit": "ns", "otherData": metadata})
