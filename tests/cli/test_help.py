"""Help: every command has an example that runs as far as its options go, and choices are those of the library."""

import shlex
from typing import get_args

import pytest
import typer

from sketchlearn.cli import help as words
from sketchlearn.cli import main
from sketchlearn.cli.app import make_app
from sketchlearn.decoders.registry import DECODERS
from sketchlearn.designs import tasks
from sketchlearn.sources.paths import FORMATS


def commands(group, path=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


APP = typer.main.get_command(make_app(None))
ALL = dict(commands(APP))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_examples_whose_options_exist(path, monkeypatch):
    lines = [line.strip() for line in (ALL[path].epilog or "").splitlines()]
    shown = [line for line in lines if line.startswith("sketchlearn ")]
    assert any(line.split()[1 : 1 + len(path)] == list(path) for line in shown), "no example of the command itself"
    for line in shown:
        words = shlex.split(line, comments=True)[1:]
        command, used = APP, 0
        while hasattr(command, "commands"):
            command, used = command.commands[words[used]], used + 1
        command.make_context(words[0], words[used:])  # an error for options and values that don't exist


@pytest.mark.parametrize("task", get_args(words.Task))
def test_a_task_in_place_of_a_verb_leads_to_its_command(task, capsys):
    assert main([task, "all.sketch"]) == 2
    said = capsys.readouterr().err
    command = "kmeans --medians" if task == "kmedians" else task
    assert f"'sketchlearn learn {command}'?" in said or f"write --task {task}" in said


@pytest.mark.parametrize(
    ("given", "meant"),
    [("mixture-regression", "sketchlearn learn mixture-regression"), ("gmmm", "sketchlearn learn gmm"),
     ("ingest", "sketchlearn store ingest"), ("skech", "sketch"), ("servee", "serve")],
)  # fmt: skip
def test_other_names_are_guessed(given, meant, capsys):
    assert main([given, "x"]) == 2
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err


def test_every_verb_is_in_one_group():
    listed = [name for names in words.SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(APP.commands)


def test_choices_are_those_of_the_library():
    assert set(get_args(words.Task)) == set(tasks())
    shipped = {name for name in DECODERS["kmeans"] if not name.startswith("toy-")}  # other tests register theirs
    assert set(get_args(words.Decoder)) == {"auto", *shipped}
    assert set(get_args(words.FileFormat)) == set(FORMATS)


def test_help_lists_groups_and_examples(capsys):
    from sketchlearn.cli import main

    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.index("Start:") < shown.index("Compare:") < shown.index("Examples:")
    assert "..." not in shown.replace("ARGS]...", "")  # no summary is cut
