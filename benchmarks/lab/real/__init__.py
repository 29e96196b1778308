"""The lab's batches and arms on a real engine, beside what the lab says of them. See ``README.md`` beside this file."""
