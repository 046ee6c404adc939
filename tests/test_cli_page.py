"""The commands that a page shows print what it shows: blocks of `console` are run, in order with those of Python."""

import doctest
import os
import pathlib
import re
import subprocess
import sys

import pytest

from taskloss.cli import main

pytest.importorskip("skops")
pytest.importorskip("clarabel")
PAGE = pathlib.Path(__file__).parents[1] / "docs" / "cli.md"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def commands(block):
    """(command, what it is to print) for each line that begins with a dollar sign; a here-document is part of its command."""
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, _, rest = part.partition("\n")
        if command.endswith("<<END"):
            body, _, rest = rest.partition("END\n")
            command = f"{command}\n{body}END"
        yield command, rest


def printed(command, capsys):
    """Of a `taskloss` command without a pipe in this process, of others in a shell."""
    if command.startswith("taskloss ") and "|" not in command:
        main(command.split()[1:])
        out, err = capsys.readouterr()
        return out + "".join(line for line in err.splitlines(True) if not line.startswith("fit "))
    shell = f'taskloss() {{ "{sys.executable}" -m taskloss "$@"; }}\npython() {{ "{sys.executable}" "$@"; }}\n{command}'
    found = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, env=os.environ)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_commands_print_what_the_page_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```(python|console)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    assert len(blocks) > 5
    check = doctest.OutputChecker()
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, PAGE.name, "exec"), {})
            continue
        for command, wanted in commands(block):
            found = printed(command, capsys)
            assert check.check_output(wanted, found, FLAGS), f"{command}\nshould print\n{wanted}\nand prints\n{found}"
