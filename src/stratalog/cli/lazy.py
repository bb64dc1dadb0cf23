"""A group of commands that imports the module of a command when it is used."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from importlib import import_module
from typing import Any

import click


class LazyCommands(click.Group):
    """`modules` maps the name of each command to its module. The command is the module's attribute
    `<name>_command`, or `<name>`.

    Listing the names imports nothing. Reading `commands`, an attribute of every group, imports all modules.
    """

    def __init__(self, *arguments: Any, modules: Mapping[str, str], **options: Any) -> None:
        self._modules = modules
        self._known: MutableMapping[str, click.Command] = {}
        super().__init__(*arguments, **options)

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        for name in self._modules:
            self._command(name)
        return self._known

    @commands.setter
    def commands(self, commands: MutableMapping[str, click.Command]) -> None:
        self._known = commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted({*self._modules, *self._known})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        return self._command(cmd_name)

    def _command(self, name: str) -> click.Command | None:
        if name not in self._known and name in self._modules:
            module = import_module(self._modules[name])
            found: click.Command = getattr(module, f"{name}_command", None) or getattr(module, name)
            self._known[name] = found
        return self._known.get(name)
