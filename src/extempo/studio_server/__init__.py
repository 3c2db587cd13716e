"""The studio: a page in the browser that shows a training program at work, and lets it be changed while it runs.

    the training thread:  optimizer.step() -> watching -> pacing, capturing, changing, pipeline, measures, comparison
    between the two:      session (what is known), outboxes (what each page has still to get)
    the server's thread:  server -> gate -> app -> commands

The training thread looks, decides and changes; the server's thread only carries texts to and fro. starlette, uvicorn
and websockets are imported inside functions, when a studio begins.
"""

from __future__ import annotations
