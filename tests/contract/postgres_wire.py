"""The way between the client and PostgreSQL, which fails where a test says so."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

LOOPBACK = "127.0.0.1"
CHUNK_BYTES = 1 << 16


@dataclass
class Wires:
    """One connection: what the client sent goes to the server, and back."""

    client: socket.socket
    server: socket.socket
    muted: bool = False

    def close(self) -> None:
        """End both sides at once."""
        for side in (self.client, self.server):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


# What to do with a message that fits: it tells whether the server gets it.
Action = Callable[[Wires], bool]


@dataclass
class Rule:
    """What happens, once, to the next message that holds `text`."""

    text: bytes
    action: Action


@dataclass
class PostgresWire:
    """A relay to a server on loopback that follows rules; without any it changes nothing."""

    server_port: int
    rules: list[Rule] = field(default_factory=list)
    connections: int = 0

    def __post_init__(self) -> None:
        self._listener = socket.create_server((LOOPBACK, 0))
        self._open: list[Wires] = []
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def on(self, text: str, action: Action) -> None:
        """Apply `action` to the next message from the client that holds `text`."""
        self.rules.append(Rule(text.encode(), action))

    def cut(self) -> None:
        """End all connections, as a restart of the server would."""
        for wires in self._open:
            wires.close()

    def close(self) -> None:
        """Stop listening, and end what is open."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            wires = Wires(client, socket.create_connection((LOOPBACK, self.server_port)))
            self._open.append(wires)
            threading.Thread(target=self._up, args=(wires,), daemon=True).start()
            threading.Thread(target=self._down, args=(wires,), daemon=True).start()

    def _up(self, wires: Wires) -> None:
        with suppress(OSError):
            while chunk := wires.client.recv(CHUNK_BYTES):
                rule = next((each for each in self.rules if each.text in chunk), None)
                if rule:
                    self.rules.remove(rule)
                    if not rule.action(wires):
                        break
                wires.server.sendall(chunk)
        if not wires.muted:
            wires.close()

    def _down(self, wires: Wires) -> None:
        with suppress(OSError):
            while chunk := wires.server.recv(CHUNK_BYTES):
                if wires.muted:
                    break
                wires.client.sendall(chunk)
        wires.close()


def after(callback: Callable[[], object]) -> Action:
    """Run `callback` first; then the server gets the message."""

    def act(_wires: Wires) -> bool:
        callback()
        return True

    return act


# A whole message; without its end it would be found in what begins a transaction too.
COMMIT = "COMMIT\0"


def lose(_wires: Wires) -> bool:
    """End the connection before the server gets the message."""
    return False


def lose_answer(wires: Wires) -> bool:
    """End the connection once the server has answered, before the client hears of it."""
    wires.muted = True
    return True
