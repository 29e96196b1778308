"""The emulator beside Dynamo's offline replay, which nobody here wrote. See ``README.md`` beside this file."""
