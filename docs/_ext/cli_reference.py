"""The directive ``cli-reference``: every verb of the command line, read from the application itself at build."""

from collections.abc import Iterator
from typing import Any

from sphinx.util.docutils import SphinxDirective


def _verbs(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    for key, child in getattr(command, "commands", {}).items():
        if getattr(child, "commands", None):
            yield from _verbs(child, f"{name} {key}")
        else:
            yield f"{name} {key}", child


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def _page(name: str, command: Any) -> Iterator[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = [p.name.upper() + ("..." if p.nargs != 1 else "") for p in arguments]
    yield f"## {name}\n\n{(command.help or '').strip()}\n"
    yield f"```text\n{name} {' '.join(usage)} [OPTIONS]\n```\n"
    yield "| argument or option | default | meaning |\n|---|---|---|"
    for p, word in zip(arguments, usage, strict=True):
        yield f"| `{word}` | {'required' if p.required else ''} | {_cell(getattr(p, 'help', '') or '')} |"
    for p in options:
        names = ", ".join(f"`{opt}`" for opt in sorted([*p.opts, *p.secondary_opts], key=len))
        shown = p.default is not None and p.default is not False and not p.required and not p.multiple
        default = "required" if p.required else f"`{p.default}`" if shown else ""
        yield f"| {names} | {default} | {_cell(p.help or '')} |"
    yield ""


class CliReference(SphinxDirective):
    """A section per verb: usage, arguments, options and their defaults."""

    def run(self) -> list[Any]:
        import typer

        from sketchlearn.cli.app import make_app

        app = typer.main.get_command(make_app())
        text = "\n".join(line for name, verb in _verbs(app, "sketchlearn") for line in _page(name, verb))
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("cli-reference", CliReference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
