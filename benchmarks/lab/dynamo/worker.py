"""Runs in Dynamo's own environment, where nothing of ours is: a job on stdin, the replay's report on stdout.

Not ``python -m dynamo.replay``, which does the same but wants ``transformers`` to be there.
"""

from __future__ import annotations

import importlib
import json
import sys


def main() -> None:
    """One replay."""
    job = json.load(sys.stdin)
    core = importlib.import_module("dynamo._core")
    report = core.run_mocker_trace_replay(
        [job["trace"]],
        extra_engine_args=core.MockEngineArgs.from_json(json.dumps(job["engine"])),
        replay_concurrency=job["cap"],
        replay_mode="offline",
        trace_block_size=job["block"],
        trace_format="mooncake-delta",
        report_jsonl_path=job.get("requests"),
    )
    sys.stdout.write("\n" + json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
