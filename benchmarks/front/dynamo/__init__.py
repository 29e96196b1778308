"""Dynamo's ThunderAgent router before one SGLang server, with all that it takes."""
