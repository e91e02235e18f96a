import csv
import hashlib
import random
from types import SimpleNamespace

import pytest


@pytest.fixture(scope="module")
def corpus(part):
    return part("language_model.corpus")


@pytest.fixture(scope="module")
def files(part):
    return part("language_model.files")


@pytest.fixture(scope="module")
def duplicates(part):
    return part("language_model.duplicates")


def lines(seed, count=40):
    draw = random.Random(seed)
    return [f"value_{draw.randrange(10**9)} = call({draw.randrange(10**9)})" for _ in range(count)]


def code(seed, count=40):
    return "\n".join(lines(seed, count)).encode() + b"\n"


@pytest.fixture
def folder(tmp_path):
    """Six packages; some files are copies, some no text."""
    for number in range(6):
        for name in ("a.py", "sub/b.py"):
            path = tmp_path / f"p{number}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(code(f"{number}{name}", 400 if number else 30))
    (tmp_path / "p3/copy.py").write_bytes((tmp_path / "p1/a.py").read_bytes())
    edited = [b"    " + line for line in (tmp_path / "p2/a.py").read_bytes().splitlines()]
    edited[7] = b"something_else = 1"
    (tmp_path / "p4/edited.py").write_bytes(b"\n".join(edited))
    (tmp_path / "p5/binary.bin").write_bytes(b"\xff\xfe\0\x80")
    (tmp_path / "p5/empty.txt").write_bytes(b" \n")
    return tmp_path


def test_copies_and_what_is_no_text_are_left_out(corpus, folder):
    built = corpus.build(folder)
    names = {text.name for text in built.train + built.validation}
    assert names == {f"p{n}/{name}" for n in range(6) for name in ("a.py", "sub/b.py")}
    assert built.left_out == {"same bytes": 1, "near duplicates": 1}


def test_packages_are_not_split(corpus, folder):
    built = corpus.build(folder)
    train, held_out = ({t.package for t in s} for s in (built.train, built.validation))
    assert held_out == {"p0"}  # the only one that fits into 4 %
    assert train == {f"p{n}" for n in range(1, 6)}


def test_manifest_lists_each_file_with_its_digest(corpus, folder):
    built = corpus.build(folder)
    rows = list(csv.DictReader(built.manifest.splitlines()))
    assert len(rows) == 12
    for row in rows:
        content = (folder / row["file"]).read_bytes()
        assert row["digest"] == hashlib.sha256(content).hexdigest()
        assert row["bytes"] == str(len(content))
        assert row["package"] == row["file"].split("/")[0]
        assert row["split"] == ("validation" if row["package"] == "p0" else "train")
    assert built.digest == corpus.build(folder).digest
    (folder / "p2/a.py").write_bytes(code("new"))
    assert built.digest != corpus.build(folder).digest
    told = built.summary()
    assert told["train"]["files"] + told["validation"]["files"] == 12
    assert sum(told["train"]["packages"].values()) == told["train"]["bytes"]


def test_one_file_is_cut_into_pieces(corpus, tmp_path):
    (tmp_path / "book.txt").write_bytes(code("book", 1000))
    for data in (tmp_path, tmp_path / "book.txt"):
        built = corpus.build(data)
        texts = sorted(built.train + built.validation, key=lambda t: int(t.name.split(":")[1]))
        assert b"".join(text.content for text in texts) == code("book", 1000)
        assert len(built.validation) == 1


def test_a_folder_without_text_or_not_there_is_refused(corpus, tmp_path):
    (tmp_path / "one.txt").write_text("one line")
    with pytest.raises(SystemExit, match="too little text"):
        corpus.build(tmp_path)
    with pytest.raises(SystemExit, match="there is no such folder"):
        corpus.build(tmp_path / "elsewhere")


def test_near_duplicates_by_share_of_lines(duplicates):
    base = lines("base", 100)
    texts = ["\n".join([*base[: 100 - new], *lines(new, new)]).encode() for new in (5, 10, 20, 50)]
    # Of 100 lines of each, 95 are in both of (0, 5), and so on: 90 / 110 and 80 / 120, 50 / 150.
    found = duplicates.near(["\n".join(base).encode(), *texts])
    assert found == {1: 0, 2: 0}


def test_lines_of_a_licence_are_not_compared(duplicates):
    licence = lines("licence", 100)
    texts = ["\n".join([*licence, *lines(n, 6)]).encode() for n in range(60)]
    assert not duplicates.near(texts)
    assert len(duplicates.near(texts[:5])) == 4  # few files: then they are just similar


def test_installed_files_are_of_packages_and_of_python(files, monkeypatch, tmp_path):
    def distribution(name, version, names):
        made = [files.Path(each) for each in names]
        kinds = [
            type("File", (type(p),), {"locate": lambda self: tmp_path / str(self)}) for p in made
        ]
        listed = [kind(p) for kind, p in zip(kinds, made, strict=True)]
        return SimpleNamespace(metadata={"Name": name}, version=version, files=listed)

    found = [
        distribution("My_Tool", "1.0", ["my/a.py", "my/_vendor/six.py", "my/data.csv"]),
        distribution("my-tool", "0.9", ["my/old.py"]),
        distribution("rnnc", "1.0", ["rnnc/a.py"]),
        distribution("other", "2", ["../../bin/x.py", "o-2.dist-info/a.txt", "o/readme.md"]),
    ]
    monkeypatch.setattr(files.metadata, "distributions", lambda: found)
    root = tmp_path / "lib"
    for name in ("json/decoder.py", "site-packages/x/a.py", "json/__pycache__/a.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    monkeypatch.setattr(files.sysconfig, "get_paths", lambda: {"stdlib": str(root)})
    named = [(p.package, p.version, p.name) for p in files.installed()]
    assert named == [
        ("python", files.platform.python_version(), "json/decoder.py"),
        ("my-tool", "1.0", "my/a.py"),
        ("other", "2", "o/readme.md"),
    ]
    (root / "json/tests").mkdir()
    (root / "json/tests/a.py").write_text("")
    assert [(p.package, p.name) for p in files.small()] == [("json", "json/decoder.py")]


def test_tables_of_numbers_and_long_lines_are_not_chosen(files):
    ordinary = b"    return the_answer(question)\n" * 20
    assert files.is_prose_or_code(ordinary)
    assert not files.is_prose_or_code(b"x = 1\n")
    assert not files.is_prose_or_code(b"0.12, 3.45, 6.78\n" * 100)
    assert not files.is_prose_or_code(b"a" * 10_000)
    assert not files.is_prose_or_code(ordinary * 2000)
