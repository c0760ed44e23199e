import gzip
import http.server
import os
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from holdfast.datasets import adult as adult_download
from holdfast.datasets import data_instructions, download, load_dataset
from holdfast.datasets import mnist as source
from holdfast.datasets.files import check_sha256, fetch, make_folder, sha256_of
from holdfast.datasets.mnist import idx_bytes, md5_of, read_idx
from holdfast.datasets.synthetic import make_files
from holdfast.exceptions import DatasetError, StorageError

MANY = 1 << 20
DATA = os.environ.get("HOLDFAST_TEST_DATA")


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `files`; counts requests; can fail first, lie about the length or never answer."""

    files: dict[str, bytes] = {}
    requests: list[str] = []
    failures = 0
    silent = False  # about the length

    def do_GET(self):
        """Answer one request."""
        type(self).requests.append(self.path)
        if type(self).failures > 0:
            type(self).failures -= 1
            self.send_error(503)
            return
        content = self.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        if not type(self).silent:
            self.send_header("Content-Length", str(len(content) + (10 if "short" in self.path else 0)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture
def server(monkeypatch):
    """A local server, and its address."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    handler = type("Fresh", (Handler,), {"files": {}, "requests": [], "failures": 0})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        handler.address = f"http://127.0.0.1:{running.server_address[1]}"
        yield handler
        running.shutdown()
        thread.join()


def accept(path):
    """Every file is right."""


def test_the_second_source_is_tried(server, tmp_path):
    """A source without the file is asked once, then the next one delivers; progress is told; no part is left."""
    server.files["/b/data"] = b"x" * 5
    told = []
    target = fetch(
        [f"{server.address}/a/data", f"{server.address}/b/data"],
        tmp_path / "data",
        check=accept,
        max_bytes=MANY,
        progress=lambda *news: told.append(news),
    )
    assert target.read_bytes() == b"xxxxx"
    assert server.requests == ["/a/data", "/b/data"]
    assert told == [("data", 5, 5)]
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_busy_server_is_asked_again(server, tmp_path):
    """Two refusals, then the file."""
    server.files["/data"] = b"here"
    server.failures = 2
    assert fetch([f"{server.address}/data"], tmp_path / "data", check=accept, max_bytes=MANY).read_bytes() == b"here"
    assert len(server.requests) == 3


def test_a_short_answer_is_not_a_file(server, tmp_path):
    """Fewer bytes than announced leave nothing behind, and the error says so."""
    server.files["/short"] = b"cut off"
    with pytest.raises(DatasetError, match="data could not be downloaded .*(7 of 17 bytes arrived|IncompleteRead)"):
        fetch([f"{server.address}/short"], tmp_path / "data", check=accept, max_bytes=MANY, retries=0)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_checksum_is_refused(server, tmp_path):
    """A file with another sha256 is deleted; an older one of that name stays."""
    server.files["/data"] = b"new"
    (tmp_path / "data").write_bytes(b"old")
    with pytest.raises(DatasetError, match="data has the sha256 [0-9a-f]{64}, not abc.*put the file into"):
        fetch([f"{server.address}/data"], tmp_path / "data", check=check_sha256("abc"), max_bytes=MANY)
    assert (tmp_path / "data").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("announced", [True, False])
def test_a_source_that_sends_too_much_is_given_up(server, tmp_path, announced):
    """Whether it says so or not, no more than the bound is taken, and the next source is asked."""
    server.files |= {"/large": b"x" * 3_000_000, "/right": b"here"}
    server.silent = not announced
    taken = []
    target = fetch(
        [f"{server.address}/large", f"{server.address}/right"],
        tmp_path / "data",
        check=accept,
        max_bytes=MANY,
        progress=lambda name, done, total: taken.append(done),
    )
    assert target.read_bytes() == b"here"
    assert max(taken) <= MANY
    assert server.requests == ["/large", "/right"]  # not asked again
    with pytest.raises(DatasetError, match="the source sends more than the 3 bytes that data can have"):
        fetch([f"{server.address}/right"], tmp_path / "data", check=accept, max_bytes=3)
    assert target.read_bytes() == b"here"


def test_two_downloads_at_once_do_not_mix(server, tmp_path):
    """Each has a file of its own until it is whole."""
    server.files |= {"/a": b"a" * 1000, "/b": b"b" * 1000}
    threads = [
        threading.Thread(target=fetch, args=([f"{server.address}/{name}"], tmp_path / "data"), kwargs=options)
        for name in "abab"
        for options in [{"check": accept, "max_bytes": MANY}]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "data").read_bytes() in (b"a" * 1000, b"b" * 1000)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_gzip_file_that_grows_is_refused(tmp_path):
    """No more is unpacked than the largest of the files has, before its md5 is known."""
    bomb = tmp_path / "train-images-idx3-ubyte.gz"
    bomb.write_bytes(gzip.compress(bytes(200 << 20), compresslevel=1))
    tracemalloc.start()
    with pytest.raises(DatasetError, match="has more than 67,108,864 bytes, uncompressed"):
        read_idx(bomb, md5=source.MNIST_MD5["train-images-idx3-ubyte"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150 << 20


def test_an_unreachable_source_is_named(tmp_path):
    """A refused connection is in the message, with what to do."""
    with pytest.raises(DatasetError, match=r"127.0.0.1:9/data: .*Check the connection, or put the file into"):
        fetch(["http://127.0.0.1:9/data"], tmp_path / "data", check=accept, max_bytes=MANY, retries=0, timeout=2)


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path):
    """A file where the folder should be is named."""
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(StorageError, match="taken cannot be created"):
        make_folder(tmp_path / "taken")


@pytest.fixture
def tiny_mnist(monkeypatch):
    """Stand-ins for the four files, with their checksums known to the module."""
    arrays = {
        "train-images-idx3-ubyte": np.arange(5 * 784, dtype=np.uint8).reshape(5, 28, 28),
        "train-labels-idx1-ubyte": np.array([5, 0, 4, 1, 9], dtype=np.uint8),
        "t10k-images-idx3-ubyte": np.arange(2 * 784, dtype=np.uint8).reshape(2, 28, 28)[::-1].copy(),
        "t10k-labels-idx1-ubyte": np.array([7, 2], dtype=np.uint8),
    }
    contents = {name: idx_bytes(array) for name, array in arrays.items()}
    monkeypatch.setattr(source, "MNIST_MD5", {name: md5_of(content) for name, content in contents.items()})
    return arrays, contents


def test_mnist_comes_from_a_mirror_and_stays(server, tmp_path, tiny_mnist):
    """Missing and damaged files are fetched and verified; good ones are not asked for again."""
    contents = tiny_mnist[1]
    server.files = {f"/m/{name}.gz": gzip.compress(content) for name, content in contents.items()}
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(contents["train-labels-idx1-ubyte"])
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(b"damaged")
    files = source.download_mnist(tmp_path, mirrors=(f"{server.address}/m/",))
    assert len(files) == 4
    assert sorted(server.requests) == [
        "/m/t10k-images-idx3-ubyte.gz",
        "/m/t10k-labels-idx1-ubyte.gz",
        "/m/train-images-idx3-ubyte.gz",
    ]
    assert source.download_mnist(tmp_path, mirrors=()) == files


def test_a_file_that_would_hide_the_download_is_refused(server, tmp_path, tiny_mnist):
    """Fashion-MNIST has the same names: such a file is neither deleted nor read in place of the one that is fetched."""
    contents = tiny_mnist[1]
    server.files = {f"/m/{name}.gz": gzip.compress(content) for name, content in contents.items()}
    other = tmp_path / "train-labels-idx1-ubyte"
    other.write_bytes(contents["train-labels-idx1-ubyte"][:-1])
    with pytest.raises(DatasetError, match=r"train-labels-idx1-ubyte has the md5 .*Delete it and get it again"):
        source.download_mnist(tmp_path, mirrors=(f"{server.address}/m/",))
    assert other.exists()
    assert server.requests == []


def test_files_under_other_names_are_not_fetched_again(tmp_path, tiny_mnist):
    """All names that the loader reads count as there, with a dot and with gzip too."""
    names = dict(zip(tiny_mnist[1], ("", ".gz", "", ".gz"), strict=True))
    for name, content in tiny_mnist[1].items():
        packed = gzip.compress(content) if names[name] else content
        (tmp_path / (name.replace("-idx", ".idx") + names[name])).write_bytes(packed)
    files = source.download_mnist(tmp_path, mirrors=())
    assert sorted(path.name for path in files) == sorted(path.name for path in tmp_path.iterdir())


def test_mirrors_that_fail_are_named(server, tmp_path):
    """When no mirror answers, each is in the message, with what to do."""
    mirrors = (f"{server.address}/a/", f"{server.address}/b/")
    with pytest.raises(DatasetError, match=r"/a/train-images.*HTTP 404.*/b/train-images.*HTTP 404.*put the file into"):
        source.download_mnist(tmp_path, mirrors=mirrors)


def test_download_by_name(tmp_path, monkeypatch):
    """Data without a public source answer with instructions, synthetic data need nothing."""
    assert download("toy", tmp_path) == []
    with pytest.raises(
        DatasetError, match="Data set 'ask2me' cannot be downloaded from here. Get .*by hand. In .*json"
    ):
        download("ask2me", tmp_path)
    with pytest.raises(DatasetError, match="There is no data set 'vector'. Did you mean 'vectors'?"):
        download("vector", tmp_path)


def test_instructions_name_files_and_folder(tmp_path, monkeypatch):
    """Every file name and the folder are in the text; the default folder follows the environment variable."""
    text = data_instructions("colored_mnist", tmp_path)
    assert str(tmp_path) in text
    assert all(name in text for name in source.MNIST_MD5)
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "mine"))
    assert str(tmp_path / "mine") in data_instructions("celeba")
    assert "list_eval_partition.txt" in data_instructions("celeba")
    assert "art_aspect_{k}_env_2_val.json" in data_instructions("beer")


def test_instructions_name_commands(tmp_path):
    """What gets the files, or says which they are, can be pasted into a shell."""
    folder = tmp_path / "my data"
    assert f"holdfast data colored_mnist --folder '{folder}'" in data_instructions("colored_mnist", folder)
    assert f"holdfast data vectors --folder '{folder}'" in data_instructions("vectors", folder)
    assert f"holdfast data adult --folder {tmp_path}" in data_instructions("adult", tmp_path)
    assert "holdfast data vectors --show" in data_instructions("beer", tmp_path)
    folder.mkdir()
    with pytest.raises(DatasetError, match="run: holdfast data celeba --folder '.*my data' --show$"):
        load_dataset("celeba", folder=folder)


@pytest.fixture
def small_adult(tmp_path, server, monkeypatch):
    """Synthetic files on the server, with their checksums known to the module; returns their folder."""
    folder = make_files("adult", tmp_path / "synthetic")
    files = {name: (folder / name).read_bytes() for name in adult_download.ADULT_SHA256}
    monkeypatch.setattr(adult_download, "ADULT_SHA256", {name: sha256_of(folder / name) for name in files})
    server.files = {f"/uci/{name}": content for name, content in files.items()}
    return folder


def test_adult_is_fetched_once(server, small_adult, tmp_path):
    """Both files are fetched and verified; what is there, plain or gzip, is not asked for again."""
    folder, url = tmp_path / "data", f"{server.address}/uci/"
    files = adult_download.download_adult(folder, source=url)
    assert files == [folder / "adult.data", folder / "adult.test"]
    assert load_dataset("adult", folder=folder).train.X.equals(load_dataset("adult", folder=small_adult).train.X)
    (folder / "adult.test.gz").write_bytes(gzip.compress((folder / "adult.test").read_bytes()))
    (folder / "adult.test").unlink()
    assert adult_download.download_adult(folder, source=url) == [folder / "adult.data", folder / "adult.test.gz"]
    assert server.requests == ["/uci/adult.data", "/uci/adult.test"]


def test_other_adult_files_are_neither_replaced_nor_accepted(server, small_adult, tmp_path):
    """A file that differs is named and stays; a changed source is refused, with the page to get the file from."""
    (tmp_path / "adult.data").write_text("mine")
    with pytest.raises(DatasetError, match=r"adult.data has the sha256 .*not UCI's file. Move it away"):
        adult_download.download_adult(tmp_path, source=f"{server.address}/uci/")
    assert (tmp_path / "adult.data").read_text() == "mine"
    assert server.requests == []
    (tmp_path / "adult.data").unlink()
    server.files["/uci/adult.data"] = b"changed"
    with pytest.raises(DatasetError, match=r"adult.data could not be downloaded .*archive.ics.uci.edu/dataset/2/adult"):
        adult_download.download_adult(tmp_path, source=f"{server.address}/uci/")


@pytest.mark.skipif(DATA is None, reason="HOLDFAST_TEST_DATA is not set")
def test_the_checksums_of_adult_are_those_of_the_real_files():
    """The files that the reproduction uses are found and verified without a source."""
    files = adult_download.download_adult(Path(DATA), source="http://127.0.0.1:9/")
    assert [path.name for path in files] == ["adult.data.gz", "adult.test.gz"]


@pytest.mark.network
def test_adult_comes_from_uci(tmp_path):
    """The two files of the archive have the checksums."""
    assert [path.name for path in adult_download.download_adult(tmp_path)] == ["adult.data", "adult.test"]


@pytest.mark.network
def test_mnist_comes_from_the_mirrors(tmp_path):
    """The mirrors have the four files, each with MNIST's md5."""
    assert len(source.download_mnist(tmp_path)) == 4
