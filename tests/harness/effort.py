"""How much tests try: what is enough for a change, or for a release (`make release-check`)."""

import os

RELEASE = bool(os.environ.get("ID_GEN_RELEASE"))


def effort(release: int, change: int) -> int:
    """A number of rows, calls or seconds."""
    return release if RELEASE else change
