"""Plain English: no rule of english_rules.tsv has more hits than its budgets, one for messages and one for other text.

Messages are what SQL shows: the string literals of three words or more in `.rs` and `.sql` files, except those of
tests, assertions and panics. Other text is `.md` files and comments. Code in backquotes or blocks is left out.
`-v` lists the hits of rules over budget, `-a` all.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
RULES = ROOT / "scripts/english_rules.tsv"
# Generated, or a record of what was.
LEFT_OUT = {"docs/reference.md", "CHANGELOG.md", "docs/benchmarks.md"}

STRING = {".rs": r'r#".*?"#|"(?:[^"\\]|\\.)*"|\'(?:\\.|[^\'\\])\'', ".sql": r"'(?:[^']|'')*'"}
COMMENT = {".rs": r"//[^\n]*", ".sql": r"--[^\n]*"}
TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod \w+ \{.*?^\}", re.MULTILINE | re.DOTALL)
NOT_SHOWN = re.compile(r"(assert\w*!|expect|panic!|unreachable!|unimplemented!)\([^;]*\Z")
# In backquotes, or a value that is put in.
CODE = re.compile(r"`[^`\n]*`|\{\w*(?::[^}\n]*)?\}")
BLOCKS = re.compile(r"^```.*?^```|<!--.*?-->|\]\([^)\s]*\)", re.MULTILINE | re.DOTALL)
WORDS = re.compile(r"(?:[^\W\d_]+[,;:.]? ){2}")

# Of which files, and of which views, a rule takes notice.
SCOPES = {
    "all": (r".", {"messages", "text"}),
    "rs": (r"\.rs$", {"text"}),
    "md": (r"(?<!troubleshooting)\.md$", {"text"}),
    "umd": (r"\.md$", {"text"}),
    "msg": (r".", {"messages"}),
}


def hidden(match: re.Match[str], letter: str = " ") -> str:
    return re.sub(r"[^\n]", letter, match[0])


def hide_code(text: str) -> str:
    return CODE.sub(lambda code: hidden(code, "C"), text)


def narrow(text: str) -> str:
    """With one space for many, and the same lines: patterns take time for each."""
    return re.sub(r"[ \t]+", " ", text)


def views(name: str, text: str) -> dict[str, str]:
    """A file's messages and its other text, each with all else blanked out, so that lines stay."""
    if name.endswith(".md"):
        return {"messages": "", "text": narrow(hide_code(BLOCKS.sub(hidden, text)))}
    kind = Path(name).suffix
    in_tests = name.startswith("tests/") or "/tests/" in name
    text = TESTS.sub(hidden, text)

    tokens = re.compile(f"(?P<comment>{COMMENT[kind]})|{STRING[kind]}", re.DOTALL)
    messages, others, end = [], [], 0
    for token in tokens.finditer(text):
        between = re.sub(r"[^\n]", " ", text[end : token.start()])
        end = token.end()
        message = other = hidden(token)
        if token["comment"] is not None:
            other = hide_code(re.sub(r"^(//[/!]?|--)", hidden, token[0]))
        elif (
            not in_tests
            and WORDS.search(token[0])
            and not NOT_SHOWN.search(text, max(0, token.start() - 300), token.start())
        ):
            message = hide_code(token[0])
        messages += between, message
        others += between, other
    return {"messages": narrow("".join(messages)), "text": narrow("".join(others))}


def main() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "*.rs", "*.sql", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = [name for name in tracked.stdout.splitlines() if name not in LEFT_OUT and (ROOT / name).is_file()]
    files = {name: views(name, (ROOT / name).read_text()) for name in names}
    failed = False
    for line in RULES.read_text().splitlines()[1:]:
        rule, messages, text, scope, pattern, unless, advice = line.split("\t")
        in_files, in_views = SCOPES[scope]
        regex = re.compile(pattern.replace(" ", r"\s+"), re.MULTILINE)
        for view, budget in (("messages", int(messages)), ("text", int(text))):
            found = []
            for name, shown in files.items() if view in in_views else ():
                for hit in regex.finditer(shown[view]) if re.search(in_files, name) else ():
                    around = " ".join(shown[view][max(0, hit.start() - 45) : hit.end() + 45].split())
                    if not unless or not re.search(unless, around):
                        start = hit.start() + len(hit[0]) - len(hit[0].lstrip())
                        found.append(f"  {name}:{shown[view].count(chr(10), 0, start) + 1}: {around}")
            over = len(found) > budget
            if over or "-a" in sys.argv:
                print(f"{rule}, {view}: {len(found)} of {budget}; write: {advice}")
                print("\n".join(found) if {"-v", "-a"} & {*sys.argv} else "  (-v lists them)")
            failed |= over
    sys.exit(failed)


if __name__ == "__main__":
    main()
