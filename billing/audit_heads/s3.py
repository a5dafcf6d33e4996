"""PUT of one object into an S3-compatible store, signed by AWS Signature Version 4. Pure but for `put`."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    import httpx

SERVICE = "s3"
ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True)
class S3Bucket:
    """Address and credentials of the store. `url`: without a bucket, as
    https://s3.eu-central-1.amazonaws.com."""

    url: str
    region: str
    key_id: str
    secret: str = field(repr=False)


def headers_of(
    store: S3Bucket, path: str, body: bytes, at: datetime, more: Mapping[str, str]
) -> dict[str, str]:
    """Signed headers of a PUT of `body` to `path` (quoted, from the host on)."""
    digest = hashlib.sha256(body).hexdigest()
    stamp, day = at.strftime("%Y%m%dT%H%M%SZ"), at.strftime("%Y%m%d")
    headers = {
        "host": urlsplit(store.url).netloc,
        "x-amz-content-sha256": digest,
        "x-amz-date": stamp,
        **{name.lower(): value for name, value in more.items()},
    }
    names = sorted(headers)
    lines = "".join(f"{name}:{headers[name].strip()}\n" for name in names)
    request = "\n".join(["PUT", path, "", lines, ";".join(names), digest])
    scope = f"{day}/{store.region}/{SERVICE}/aws4_request"
    text = "\n".join([ALGORITHM, stamp, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{store.secret}".encode()
    for part in (day, store.region, SERVICE, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    credential = f"Credential={store.key_id}/{scope}"
    authorization = f"{ALGORITHM} {credential},SignedHeaders={';'.join(names)},Signature={signature}"
    return {**headers, "authorization": authorization}


def path_of(bucket: str, name: str) -> str:
    """An object's path on the store's host."""
    return "/" + quote(f"{bucket}/{name}", safe="/-_.~")


async def put(client: "httpx.AsyncClient", store: S3Bucket, bucket: str, name: str, body: bytes) -> int:
    """Write an object; return the HTTP status. Follows no redirect."""
    path = path_of(bucket, name)
    headers = headers_of(store, path, body, datetime.now(UTC), {"content-type": "application/x-ndjson"})
    reply = await client.put(store.url + path, content=body, headers=headers, follow_redirects=False)
    return reply.status_code
