"""A server in miniature, with a child of its own: what a launcher has to start, wait for and end.

usage: fake_server.py PIPE WAYS...    PIPE stays open for writing as long as any process of it lives. Ways:
    dies        end at once with exit code 3
    deaf        leader and child ignore SIGTERM
    orphans     the leader ends on SIGTERM and leaves its child behind, which ignores it
"""

import os
import signal
import sys

pipe, ways = os.open(sys.argv[1], os.O_WRONLY), sys.argv[2:]
print("fake server says hello", flush=True)
if "dies" in ways:
    sys.exit(3)
child = os.fork()
if "deaf" in ways or ("orphans" in ways and not child):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
elif child:

    def end(*_: object) -> None:
        if "orphans" not in ways:
            os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
os.write(pipe, b"r")
while True:
    signal.pause()
