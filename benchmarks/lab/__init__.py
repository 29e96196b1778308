"""The lab: the real controller and the real emulator core in virtual time, hours of many agents in seconds.

See ``README.md`` beside this file.
"""
