"""Text of a wanted length for scripted replies: what an agent would say before it acts."""

from __future__ import annotations

import random

__all__ = ["CHARACTERS_PER_TOKEN", "thought"]

CHARACTERS_PER_TOKEN = 4
"""English and code, for common tokenizers: 3.5 to 4.5."""

OPENINGS = {
    "look": (
        "Let me look further.",
        "I need to see more of this.",
        "First, where is that?",
        "Next, the code around it.",
    ),
    "test": ("Let me see how it fails.", "I run the tests that the issue names.", "Now reproduce it."),
    "try": ("Let me try something.", "A quick experiment.", "Is this even the code that runs?"),
    "fix": ("Now I know what to change.", "Here is the fix.", "This should repair it."),
    "test again": ("Check it against the tests.", "Run them again.", "Does it hold?"),
    "submit": ("The tests pass now; the issue is resolved.", "Done: the fix is in and the tests pass."),
    "give up": ("I could not find the cause; I stop here.", "I have no fix for this. What I learned is above."),
}
SENTENCES = (
    "The issue describes what is seen from the outside, so I want to find the place where the value is made.",
    "The name suggests that this is the right module, but there may be a second path that leads here.",
    "The tests give the expected result exactly, which narrows it down.",
    "I should not change the behaviour for the inputs that work today.",
    "There is a special case above that looks as if it had been added for something similar.",
    "If this were the cause, the other test would fail as well, and it does not.",
    "The traceback ends in the standard library, so the argument must already be wrong when it is passed.",
    "Let me keep the change small, and in the style of the code around it.",
    "The order of these two steps matters: the second one overwrites what the first one sets.",
    "It could also be a matter of types: a value that compares equal is not always of the type that is expected.",
    "I have to be careful with the case in which nothing is found.",
    "The comment says one thing and the condition another.",
    "An empty input takes the early return and never comes this far.",
    "Before I edit anything I want to know who else calls this.",
    "That fits with what the reporter says about the previous release.",
    "The documentation promises more than the code does here.",
    "I will run only the files that are concerned, since the whole suite takes longer.",
    "This helper is used in three places, and two of them rely on the old result.",
    "The simplest explanation is that the check comes too late.",
    "Both spellings should lead to the same result.",
)


def thought(rng: random.Random, purpose: str, tokens: int) -> str:
    """Some sentences that are about ``tokens`` long: an opening for ``purpose``, then reflection.

    Args:
        rng: decides on the words.
        purpose: one of the keys of :data:`OPENINGS`.
        tokens: at least 1. The opening alone may be longer; beyond it the length is right to within a sentence.
    """
    parts = [rng.choice(OPENINGS[purpose])]
    missing = tokens * CHARACTERS_PER_TOKEN - len(parts[0])
    while missing > 0:
        sentence = rng.choice(SENTENCES)
        parts.append(sentence)
        missing -= len(sentence) + 1
    return " ".join(parts)
