"""What the attacker reports: the oracle that was violated, and how."""


class Finding(AssertionError):
    """An oracle was violated."""

    def __init__(self, oracle: str, what: str) -> None:
        super().__init__(f"{oracle}: {what}")
        self.oracle = oracle
