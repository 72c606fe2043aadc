"""Reads facts about a model from files: folders, the Hugging Face cache, configs and weights.

Nothing is downloaded, only headers are read, and only from regular files.
"""

import errno
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from andon.errors import AndonError, Denied, Gone, Invalid
from andon.estimate.rules.config_json import config_facts
from andon.estimate.rules.gguf import (
    READ_BYTES,
    GgufHeader,
    HeaderGoesOn,
    gguf_facts,
    gguf_header,
)
from andon.estimate.rules.names import name_facts
from andon.estimate.rules.safetensors import (
    LENGTH_BYTES,
    StoredTensors,
    header_length,
    index_of,
    parse_header,
)
from andon.estimate.rules.shape import EstimateConfidence, FactSource, ModelFacts
from andon.host.files import expanded, open_regular, read_regular
from andon.units import sh

CONFIG, INDEX = "config.json", "model.safetensors.index.json"
ADAPTER = "adapter_config.json"
SAFETENSORS, GGUF = ".safetensors", ".gguf"
MOST_INDEX_BYTES = 12 * 1024 * 1024
MOST_INDEX_TABLES = 10_000  # each takes many times its two bytes when it is read
MOST_CONFIG_BYTES = 1024 * 1024
MOST_FILES = 2000
MOST_NOTES = 3
MOST_HEADERS_BYTES = 64 * 1024 * 1024  # of one model together
_PATH_SIGN = re.compile(r"^[./~]|\\|\.(json|safetensors|gguf)$|/.*/")
_PART = re.compile(r"(?P<name>.+)-\d{5}-of-(?P<count>\d{5})", re.ASCII)
_CACHE_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)


def model_facts(word: str, environment: Mapping[str, str]) -> ModelFacts:
    """The facts about a model: from a path if it is one, else the cache on disk, else its name."""
    if "\0" in word or not word.strip():
        raise Invalid("this is not the name of a model", hint="for example meta-llama/Llama-3.1-8B")
    path = expanded(word)
    if _is_readable(path):
        return path_facts(path)
    if _PATH_SIGN.search(word):
        raise Gone(
            f"there is no file {word[:80]}", hint="a folder, config.json or a file of weights"
        )
    cached = cached_folder(word, environment)
    if cached is not None:
        return replace(path_facts(cached), name=word, where="")
    return name_facts(word)


def path_facts(path: Path) -> ModelFacts:
    """Returns the facts in a folder or a file."""
    try:
        if path.is_dir():
            return folder_facts(path)
        return _file_facts(path)
    except AndonError:
        raise
    except PermissionError as exc:
        raise Denied(f"{path} may not be read", hint="ask its owner") from exc
    except OSError as exc:
        reason = (exc.strerror or "it cannot be read").lower()
        raise Invalid(f"{path}: {reason}", hint="a regular file or a folder is needed") from exc


def _file_facts(path: Path) -> ModelFacts:
    if path.name.endswith(SAFETENSORS + ".index.json"):
        return folder_facts(path.parent)
    if path.suffix == SAFETENSORS:
        return _with_weights(_config_in(path.parent), [path], path.stem, str(path))
    if path.suffix == GGUF:
        return _gguf(path)
    if path.suffix == ".json":
        return _config(path)
    raise Invalid(
        f"{path} is not a file that andon knows",
        hint="a folder, config.json, a .safetensors or a .gguf file",
    )


def folder_facts(folder: Path) -> ModelFacts:
    """Reads a folder as models are published: config.json, and weights in one or more files."""
    if (folder / ADAPTER).exists() and not (folder / CONFIG).exists():
        raise _adapter(folder / ADAPTER)
    files = sorted(_listed(folder, SAFETENSORS))
    if (folder / INDEX).exists():
        return _indexed(folder)
    if files:
        return _with_weights(_config_in(folder), files, folder.name, str(folder))
    if (folder / CONFIG).exists():
        return replace(_config(folder / CONFIG), where=str(folder))
    packed = sorted(_listed(folder, GGUF))
    if packed:
        return _one_of(packed)
    if (snapshot := _newest_snapshot(folder)) is not None:
        name = folder.name.removeprefix("models--").replace("--", "/")
        return replace(folder_facts(snapshot), name=name)
    raise Gone(f"{folder} contains no model", hint="config.json, .safetensors or .gguf files")


def _one_of(files: list[Path]) -> ModelFacts:
    """Reads the first model of several in a folder, mostly packings of the same one."""
    facts = _gguf(files[0])
    match = _PART.fullmatch(files[0].stem)
    own = f"{match['name']}-" if match else files[0].name
    others = sum(not file.name.startswith(own) for file in files)
    if not others:
        return facts
    note = f"{files[0].parent} has {others} more {GGUF} file{'s' * (others > 1)}: name the one"
    return replace(facts, notes=(*facts.notes, note))


def _adapter(path: Path) -> AndonError:
    """Returns the error for an adapter, which has only a small part of its model."""
    about = _json(path, MOST_CONFIG_BYTES)
    named = about.get("base_model_name_or_path") if isinstance(about, dict) else None
    base = named[:80] if isinstance(named, str) and named.isprintable() else ""
    return Invalid(
        f"{path.parent} is an adapter{' of ' * bool(base)}{base}, and not the model itself",
        hint=f"andon estimate {sh(base) if base[:1] not in ('', '-') else 'MODEL'}; "
        "the adapter takes little beside it",
    )


def cached_folder(name: str, environment: Mapping[str, str]) -> Path | None:
    """Returns the newest snapshot of a model in the Hugging Face cache."""
    if not _CACHE_NAME.fullmatch(name):
        return None
    return _newest_snapshot(_cache(environment) / ("models--" + name.replace("/", "--")))


def _newest_snapshot(folder: Path) -> Path | None:
    """Returns the newest snapshot in a folder of the model cache; None if it is no such folder."""
    snapshots = folder / "snapshots"
    try:
        main = read_regular(folder / "refs" / "main", 200, follow=True).decode("ascii").strip()
        if re.fullmatch(r"[\w.-]+", main) and (snapshots / main).is_dir():
            return snapshots / main
    except (OSError, UnicodeDecodeError):
        pass
    try:
        found = [one for one in snapshots.iterdir() if one.is_dir()]
        return max(found, key=lambda one: one.stat().st_mtime, default=None)
    except OSError:
        return None


def _cache(environment: Mapping[str, str]) -> Path:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(name):
            return Path(environment[name])
    if environment.get("HF_HOME"):
        return Path(environment["HF_HOME"]) / "hub"
    base = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME", "~"), ".cache"))
    return expanded(base) / "huggingface" / "hub"


def _is_readable(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _listed(folder: Path, suffix: str) -> list[Path]:
    found = [entry for entry in os.scandir(folder) if entry.name.endswith(suffix)]
    if len(found) > MOST_FILES:
        raise Invalid(f"{folder} has {len(found)} {suffix} files, more than {MOST_FILES}")
    return [Path(entry.path) for entry in found]


def _json(path: Path, most: int, most_tables: int | None = None) -> object:
    try:
        content = read_regular(path, most, follow=True)
    except OSError as exc:
        if exc.errno != errno.EFBIG:
            raise
        raise Invalid(
            f"{path} has more than {most >> 20} MiB", hint="no model needs as much in this file"
        ) from exc
    if most_tables is not None and content.count(b"{") + content.count(b"[") > most_tables:
        raise Invalid(f"{path} has more than {most_tables:,} tables and lists")
    try:
        return json.loads(content)
    except UnicodeDecodeError as exc:
        raise Invalid(f"{path} is not text at offset {exc.start}") from exc
    except json.JSONDecodeError as exc:
        raise Invalid(f"{path} is not JSON at offset {exc.pos}: {exc.msg}") from exc
    except (RecursionError, ValueError) as exc:
        raise Invalid(f"{path} cannot be read as JSON") from exc


def _config(path: Path) -> ModelFacts:
    name = path.parent.name if path.name == CONFIG else path.stem
    return config_facts(_json(path, MOST_CONFIG_BYTES), name or path.stem, str(path.parent))


def _config_in(folder: Path) -> ModelFacts | None:
    path = folder / CONFIG
    return _config(path) if path.exists() else None


def _indexed(folder: Path) -> ModelFacts:
    """Reads a model in several files; the index counts those that are missing."""
    path = folder / INDEX
    total, names = index_of(_json(path, MOST_INDEX_BYTES, MOST_INDEX_TABLES), str(path))
    files = [folder / name for name in names]
    missing = [file for file in files if not file.exists()]
    about = _config_in(folder)
    if not missing:
        return _with_weights(about, files, folder.name, str(folder))
    note = f"{len(missing)} of {len(files)} files are missing; the index says how large they are"
    if total is None:
        if about is None:
            raise Invalid(f"{path} says no total size, and files are missing")
        return replace(about, notes=(*about.notes, "files are missing; config.json counts"))
    return _joined(about, total, None, FactSource.INDEX, folder.name, str(folder), (note,))


def _with_weights(about: ModelFacts | None, files: list[Path], name: str, where: str) -> ModelFacts:
    held, read, cut = list[StoredTensors](), 0, list[str]()
    for file in files[:MOST_FILES]:
        tensors, length, present = _header(file)
        held.append(tensors)
        read += length
        if present < tensors.size_bytes:
            cut.append(
                f"{file.name} is not complete: it has {present:,} of {tensors.size_bytes:,} bytes "
                "of its tensors"
            )
        if read > MOST_HEADERS_BYTES:
            raise Invalid(f"{where}: the headers have more than {MOST_HEADERS_BYTES} bytes")
    whole = sum(held, StoredTensors())
    source = FactSource.SAFETENSORS
    notes = tuple(cut[:MOST_NOTES])
    return _joined(about, whole.size_bytes, whole.parameters, source, name, where, notes)


def _joined(
    about: ModelFacts | None,
    size: int,
    parameters: int | None,
    source: FactSource,
    name: str,
    where: str,
    notes: tuple[str, ...],
) -> ModelFacts:
    """Combines the bytes of the files with the shape of config.json."""
    sure = EstimateConfidence.HIGH
    if about is None:
        note = "there is no config.json: how the model is divided and its KV cache are not known"
        return ModelFacts(name, source, sure, None, weights_bytes=size, parameters=parameters,
                          notes=(*notes, note), where=where)  # fmt: skip
    return replace(
        about,
        name=name,
        source=source,
        confidence=sure,
        weights_bytes=size,
        parameters=parameters or about.parameters,
        notes=(*about.notes, *notes),
        where=where,
    )


def _header(path: Path) -> tuple[StoredTensors, int, int]:
    """Reads a file's tensors, the length of its header, and how many bytes follow it."""
    with os.fdopen(open_regular(path, follow=True), "rb") as file:
        length = header_length(file.read(LENGTH_BYTES), str(path))
        tensors = parse_header(file.read(length), length, str(path))
        return tensors, length, os.fstat(file.fileno()).st_size - LENGTH_BYTES - length


def _gguf(path: Path) -> ModelFacts:
    """Reads one file, or all parts of a model that was split: `-00001-of-00003.gguf`."""
    match = _PART.fullmatch(path.stem)
    if match is None:
        return gguf_facts([_gguf_header(path)], path.stem, str(path))
    count = int(match["count"])
    if not 1 <= count <= MOST_FILES:
        raise Invalid(f"{path} says that the model has {count} parts")
    parts = [
        path.with_name(f"{match['name']}-{number:05}-of-{count:05}{GGUF}")
        for number in range(1, count + 1)
    ]
    there = [part for part in parts if part.exists()]
    headers, read = list[GgufHeader](), 0
    for part in there:
        headers.append(_gguf_header(part))
        read += headers[-1].length
        if read > MOST_HEADERS_BYTES:
            raise Invalid(f"{part}: the headers have more than {MOST_HEADERS_BYTES} bytes")
    facts = gguf_facts(headers, match["name"], str(there[0]))
    if there == parts:
        return facts
    note = f"{count - len(there)} of {count} parts are missing: the model is larger than this"
    return replace(facts, confidence=EstimateConfidence.LOW, notes=(*facts.notes, note))


def _gguf_header(path: Path) -> GgufHeader:
    with os.fdopen(open_regular(path, follow=True), "rb") as file:
        content = b""
        for most in READ_BYTES[:-1]:
            content += file.read(most - len(content))
            try:
                return gguf_header(content, str(path), is_whole=len(content) < most)
            except HeaderGoesOn:
                continue
        content += file.read(READ_BYTES[-1] - len(content))
    return gguf_header(content, str(path), is_whole=len(content) < READ_BYTES[-1])
