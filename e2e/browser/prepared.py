"""A run that never took place, and a store with some: what the browser's test looks at needs no measurement."""

import json
import os
import sqlite3
import statistics
from pathlib import Path

STORE = Path(__file__).resolve().parents[2] / "crates/lab/src/store"
CONNECTIONS = [10, 100, 1000]
ROUNDS = 6
# Name, label, family, model, CPU microseconds a request with keep-alive.
TARGETS = [
    ("prefork", "manifold prefork", "manifold", "prefork", 8.0),
    ("event", "manifold event", "manifold", "event", 6.0),
    ("percore", "manifold percore", "manifold", "percore", 2.0),
    ("apache2-prefork", "apache2 prefork", "apache2", "prefork", 24.0),
    ("apache2-event", "apache2 event", "apache2", "event", 18.0),
    ("nginx", "nginx", "nginx", "loop", 6.5),
]


def cell(round_, target, keep_alive, connections, scale):
    # Rounds differ by some percent, each target in its own way.
    us = scale * (TARGETS[target][4] + (0 if keep_alive else 10)) * (1 + 0.01 * ((round_ * 3 + target * 2) % 5))
    rate = 0.9e6 / us
    p50 = connections / rate * 1e6
    latency = {"mean": p50 * 1.1, "p50": p50, "p90": p50 * 1.5, "p99": p50 * 3, "max": p50 * 9}
    return {
        "round": round_, "target": target, "keep_alive": keep_alive, "concurrency": connections, "seconds": 0.4,
        "completed": int(rate * 0.4), "worked_on": int(rate * 0.5), "requests_per_second": rate, "latency_us": latency,
        "errors": 0, "unserved": 0, "cpu_s": us * int(rate * 0.5) / 1e6, "user_s": 0.1, "system_s": 0.3,
        "pss_kib": int(1024 * us * (1 + connections / 1000)), "processes": 17, "threads": 417, "generator_cpu_s": 0.4,
        "other_load": 0.0, "marks": [],
    }


FIGURES = {
    "requests_per_second": lambda cell: cell["requests_per_second"],
    "p50_us": lambda cell: cell["latency_us"]["p50"],
    "p99_us": lambda cell: cell["latency_us"]["p99"],
    "cpu_us_per_request": lambda cell: cell["cpu_s"] * 1e6 / cell["worked_on"],
    "pss_mib": lambda cell: cell["pss_kib"] / 1024,
}


def results(scale=1.0):
    """What results.json holds, `scale` times as dear in CPU as it might be."""
    loads = [(keep_alive, connections) for keep_alive in (False, True) for connections in CONNECTIONS]
    cells = [
        cell(round_, target, *load, scale)
        for round_ in range(ROUNDS) for target in range(len(TARGETS)) for load in loads
    ]
    figures = []
    for target in range(len(TARGETS)):
        for load in loads:
            own = [c for c in cells if (c["target"], c["keep_alive"], c["concurrency"]) == (target, *load)]
            for metric, of in FIGURES.items():
                values = sorted(of(c) for c in own)
                figures.append({
                    "target": target, "keep_alive": load[0], "concurrency": load[1], "metric": metric,
                    "median": statistics.median(values), "low": values[0], "high": values[-1], "rounds": ROUNDS,
                })
    return {
        "format": 1,
        "experiment": {
            "keep_alive": [False, True], "concurrency": CONNECTIONS, "rounds": ROUNDS, "seed": 7, "warm_up_s": 0.12,
            "measured_s": 0.4,
        },
        "page": {"site": None, "path": "/index.html", "bytes": 44},
        "targets": [
            {
                "name": name, "label": label, "family": family, "model": model, "version": "1.0", "processes": 17,
                "threads": 417, "pss_fresh_kib": 4096, "warm_up_s": 0.12,
            }
            for name, label, family, model, _ in TARGETS
        ],
        "missing": [],
        "environment": {
            "started_utc": "2026-11-21 09:30:00", "system": "Debian", "kernel": "6.18", "cpu": "a <processor>",
            "memory_mib": 24000, "cores": {"server": [0], "generator": [1]}, "manifold": "0.1.0",
            "command": "manifold lab run --seed 7", "suspicions": [],
        },
        "ended_early": None,
        "took_s": 200.0,
        "cells": cells,
        "figures": figures,
    }


def this_process():
    """This process as the store names the one that measures a run."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    # Behind the name, which may hold anything but ends with the last parenthesis, the start time is the twentieth field.
    started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    return f"{boot} {os.getpid()} {started}"


class Store:
    """A store as the laboratory writes it."""

    def __init__(self, file):
        self.db = sqlite3.connect(file, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = wal")
        schemas = sorted(STORE.glob("schema-*.sql"))
        for schema in schemas:
            self.db.executescript(schema.read_text())
        self.db.execute(f"PRAGMA user_version = {len(schemas)}")

    def begin(self, name, command):
        """A run that this process measures; its number."""
        columns = "INSERT INTO run (kind, name, command, started, state, folder, owner) VALUES ('models', ?, ?, ?, 'running', '/', ?)"
        return self.db.execute(columns, (name, command, "2026-11-22 06:00:00", this_process())).lastrowid

    def tell(self, run, done, total, doing):
        self.db.execute("UPDATE run SET done = ?, total = ?, doing = ? WHERE id = ?", (done, total, doing, run))

    def end(self, run, found, headline):
        self.add(run, found["cells"])
        ended = "UPDATE run SET state = 'complete', took_s = ?, headline = ?, document = ? WHERE id = ?"
        self.db.execute(ended, (found["took_s"], headline, json.dumps(found), run))

    def add(self, run, cells):
        """The figures of these cells."""
        rows = [
            (
                run, "", TARGETS[c["target"]][1], f"c = {c['concurrency']}, {'with' if c['keep_alive'] else 'without'} keep-alive",
                metric, c["round"], of(c),
            )
            for c in cells for metric, of in FIGURES.items()
        ]
        self.db.executemany("INSERT OR REPLACE INTO value VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
