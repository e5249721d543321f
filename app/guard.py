"""An ASGI middleware at the door: no request body above the limit, and security headers on every answer.

A declared length is refused at once; a chunked body declares none, so its bytes are counted while they arrive.
"""

HEADERS = {
    b"content-security-policy": (
        # Gradio's HTML component compiles its templates in the browser, hence the two unsafe words.
        b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
        b"img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; "
        b"object-src 'none'; base-uri 'self'; form-action 'self'; "
        b"frame-ancestors 'self' https://huggingface.co https://*.hf.space"
    ),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
}
LIMIT = 1_000_000


class Guard:
    def __init__(self, app, limit: int = LIMIT):
        self.app, self.limit = app, limit

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self.limit:
            return await _refuse(send)
        await _Exchange(self, receive, send).run(scope)


class _Exchange:
    """One request on its way through: its bytes counted, its answer given headers, or refused in the middle."""

    def __init__(self, guard: Guard, receive, send):
        self.guard, self._receive, self._send = guard, receive, send
        self.bytes, self.begun, self.refused = 0, False, False

    async def run(self, scope):
        try:
            await self.guard.app(scope, self.receive, self.send)
        except Exception:
            if not self.refused:  # what the app makes of a body cut off by us is no news
                raise

    async def receive(self):
        message = await self._receive()
        self.bytes += len(message.get("body", b""))
        if self.bytes <= self.guard.limit or self.begun:
            return message
        if not self.refused:
            self.refused = True
            await _refuse(self._send)
        return {"type": "http.disconnect"}

    async def send(self, message):
        if self.refused:
            return
        if message["type"] == "http.response.start":
            self.begun = True
            message = {**message, "headers": [*message["headers"], *HEADERS.items()]}
        await self._send(message)


async def _refuse(send):
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *HEADERS.items()]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": b"The request is too large."})
