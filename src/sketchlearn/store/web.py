"""A page to watch a store: read-only, on this machine, nothing from outside.

Requests must come from the page itself: the name of the host is checked (a foreign page can make its own name point
here), a request that a browser marks as coming from another origin is refused, and where a token is set everything
but the login needs it.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import os
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from sketchlearn.optional import optional
from sketchlearn.store import pictures
from sketchlearn.store.upkeep import Store

_KINDS = {"index.html": "text/html", "style.css": "text/css", "app.js": "text/javascript"}
_FILES = {
    "sketch": ("selection.sketch", "application/octet-stream"),
    "model": ("model.json", "application/json"),
    "report": ("report.html", "text/html"),
}
_COOKIE = "sketchlearn_token"
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

Answer = Callable[..., Any]


def make_app(
    store: Store, *, token: str | None = None, hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "::1")
) -> Any:
    """The ASGI application of the page.

    `store`: what is shown. `token`: what visitors must know: as ``Authorization: Bearer``, or typed into the page.
    `hosts`: names under which the page may be asked for.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> from sketchlearn.store.web import make_app
    >>> from starlette.testclient import TestClient
    >>> client = TestClient(make_app(sl.Store(":memory:")), base_url="http://localhost")
    >>> client.get("/").status_code, client.get("/", headers={"host": "evil.example"}).status_code
    (200, 403)
    """
    optional("starlette", "store", "the page of a store")
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse, RedirectResponse, Response
    from starlette.routing import Route

    def asset(name: str) -> Any:
        async def send(request: Request) -> Response:
            data = files("sketchlearn.store").joinpath("page", name).read_bytes()
            return Response(data, media_type=_KINDS[name])

        return send

    def answer(function: Answer) -> Any:
        async def send(request: Request) -> Response:
            try:
                found = await run_in_threadpool(partial(function, store, **dict(request.query_params)))
            except (ValueError, TypeError, OSError) as error:
                return JSONResponse({"error": str(error)}, status_code=400)
            if isinstance(found, bytes):
                name, kind = _FILES[request.url.path.rpartition("/")[2]]
                return Response(
                    found, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'}
                )
            return Response(json.dumps(found, allow_nan=False), media_type="application/json")

        return send

    async def login(request: Request) -> Response:
        body = await request.body()
        given = dict(pair.split("=", 1) for pair in body[:2000].decode(errors="replace").split("&") if "=" in pair)
        if token is None or not hmac.compare_digest(given.get("token", "").encode(), token.encode()):
            return Response("that is not the token", status_code=403, media_type="text/plain")
        response = RedirectResponse("/", status_code=303)
        response.set_cookie(_COOKIE, token, httponly=True, samesite="strict")
        return response

    routes = [
        Route("/", asset("index.html")), Route("/style.css", asset("style.css")), Route("/app.js", asset("app.js")),
        Route("/login", login, methods=["POST"]),
        *(Route(f"/api/{name}", answer(function)) for name, function in pictures.ANSWERS.items()),
    ]  # fmt: skip

    async def guarded(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        problem = _refused(request, token, hosts)
        response = await call(request) if problem is None else Response(problem[1], problem[0], media_type="text/plain")
        response.headers.update(_HEADERS)
        return response

    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware

    return Starlette(routes=routes, middleware=[Middleware(BaseHTTPMiddleware, dispatch=guarded)])


def _refused(request: Any, token: str | None, hosts: tuple[str, ...]) -> tuple[int, str] | None:
    """Status and reason of a request that must not be answered."""
    if request.url.hostname not in hosts:
        return 403, "this name is not one of this server"
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        return 403, "requests from other origins are refused"
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return 403, "requests from other origins are refused"
    if token is None or request.url.path in ("/", "/login", "/style.css", "/app.js"):
        return None
    given = request.headers.get("authorization", "").removeprefix("Bearer ") or request.cookies.get(_COOKIE, "")
    return None if hmac.compare_digest(given.encode(), token.encode()) else (401, "this needs the token")


def serve(store: Store, host: str = "127.0.0.1", port: int = 8001) -> None:
    """Show a store until interrupted; an address that others can reach needs a token (``SKETCHLEARN_TOKEN``)."""
    uvicorn = optional("uvicorn", "store", "the page of a store")
    token = os.environ.get("SKETCHLEARN_TOKEN")
    loopback = host == "localhost" or _is_loopback(host)
    if not loopback and not token:
        raise ValueError(f"{host} can be reached from other machines: set SKETCHLEARN_TOKEN to a secret first")
    names = ("localhost", "127.0.0.1", "::1", host)
    uvicorn.run(make_app(store, token=token, hosts=names), host=host, port=port, log_level="warning", ws="none")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
