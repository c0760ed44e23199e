"""A store of Amazon's kind on this machine."""

import pytest


@pytest.fixture
def bucket(monkeypatch):
    """Return what puts a file into s3://wards, at a server with the interface of S3."""
    server = pytest.importorskip("moto.server", reason="needs moto[server] and boto3")
    boto3 = pytest.importorskip("boto3", reason="needs moto[server] and boto3")
    moto = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    address = "http://{}:{}".format(*moto.get_host_and_port())
    names = {"ENDPOINT_URL": address, "ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x", "DEFAULT_REGION": "us-east-1"}
    for name, value in names.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    client = boto3.client("s3", endpoint_url=address)
    client.create_bucket(Bucket="wards")
    yield lambda name, content: client.put_object(Bucket="wards", Key=name, Body=content)
    moto.stop()
