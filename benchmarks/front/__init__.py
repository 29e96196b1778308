"""A front before a real engine: chats go to it as token ids, and its noise comes back as a script's words."""
