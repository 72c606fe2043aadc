"""What files say about a model, and what is said of broken ones."""

import contextlib
import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.errors import AndonError
from andon.estimate.files import model_facts
from andon.estimate.rules.config_json import config_facts
from andon.estimate.rules.estimating import estimate
from andon.estimate.rules.gguf import gguf_facts, gguf_header
from andon.estimate.rules.gpu_sizes import capacities_on
from andon.estimate.rules.options import EstimateOptions
from andon.estimate.rules.safetensors import MOST_HEADER_BYTES, parse_header
from andon.estimate.rules.serving import kv_bytes
from andon.estimate.rules.shape import EstimateConfidence, FactSource, ModelFacts
from andon.estimate.rules.wire import estimate_answer
from andon.model.codec import document
from tests.support.model_configs import CONFIGS
from tests.support.rows import rows

SMALL = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 1000,
}  # fmt: skip


def header(tensors: dict[str, Any]) -> bytes:
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text


def tensors(count: int, kind: str = "BF16") -> bytes:
    return header(
        {"__metadata__": {}, "a": {"dtype": kind, "shape": [count, 2], "data_offsets": []}}
    )


def write(path: Path, content: bytes | dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(version: int = 3, tensor_kind: int = 12, has_tokens: bool = True, **more: int) -> bytes:
    """A file of one small model: 4-bit blocks of 256 elements in 144 bytes."""
    numbers = {
        "block_count": 2, "embedding_length": 64, "feed_forward_length": 128,
        "attention.head_count": 4, "attention.head_count_kv": 2, "context_length": 4096,
        **{name.replace("__", "."): value for name, value in more.items()},
    }  # fmt: skip
    fields = [text("general.architecture") + struct.pack("<I", 8) + text("llama")]
    fields += [text(f"llama.{k}") + struct.pack("<II", 4, v) for k, v in numbers.items()]
    tokens = b"".join(text(f"t{n}") for n in range(10))
    if has_tokens:
        fields.append(text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 10) + tokens)
    info = text("output.weight") + struct.pack("<IQQIQ", 2, 256, 10, tensor_kind, 0)
    head = b"GGUF" + struct.pack("<IQQ", version, 1, len(fields))
    return head + b"".join(fields) + info


def facts_in(content: bytes) -> ModelFacts:
    return gguf_facts([gguf_header(content, "m", is_whole=True)], "m", "m")


def test_a_number_for_each_layer_counts_with_its_layer() -> None:
    """Of a model whose first layers have no attention: 0 there does not mean as many as heads."""
    name = text("llama.attention.head_count_kv")
    one, each = name + struct.pack("<II", 4, 2), name + struct.pack("<IIQII", 9, 4, 2, 0, 1)
    found = facts_in(gguf().replace(one, each))
    assert found.shape is not None
    assert (found.shape.heads, found.shape.kv_heads) == (4, 1)
    assert kv_bytes(found.shape, 100, 16) == 100 * 2 * 16 * 2, "one layer of two keeps something"


def test_layers_and_heads_in_a_gguf_header_give_the_cache() -> None:
    """A38: without a list of tokens the KV cache was unknown."""
    found = facts_in(gguf(has_tokens=False))
    assert found.shape is not None
    assert kv_bytes(found.shape, 100, 16) == 100 * 2 * 2 * (2 * 16) * 2
    need = document(estimate_answer(estimate(found, EstimateOptions(context=100)), None))["per_gpu"]
    assert need["kv_bytes"] == 100 * 2 * 2 * (2 * 16) * 2
    by_tensor = facts_in(
        gguf(has_tokens=False).replace(text("output.weight"), text("token_embd.weight"))
    )
    assert by_tensor.shape is not None
    assert by_tensor.shape.vocab == 10


def test_latent_attention_in_a_gguf_header_is_understood() -> None:
    found = facts_in(gguf(attention__kv_lora_rank=512, rope__dimension_count=64))
    assert found.shape is not None
    assert kv_bytes(found.shape, 10, 16) == 10 * 2 * (512 + 64) * 2


@rows("kind, label", [(1, "float16"), (30, "bfloat16"), (0, "float32"), (12, "GGUF")])
def test_a_type_is_called_by_its_name(kind: int, label: str) -> None:
    """A38: F16 was called bfloat16."""
    assert facts_in(gguf(tensor_kind=kind)).stored.label == label
    word = {"torch_dtype": label} if label != "GGUF" else {}
    assert config_facts({**SMALL, **word}, "m").stored.label == (label if word else "bfloat16")


def test_what_a_header_may_hold_is_bounded() -> None:
    """N11: 18 s for a crafted GGUF, 660 MB for a crafted safetensors header."""
    lists = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("x")
    crafted = {
        "more than 2000000 texts": lists + struct.pack("<IIQ", 9, 8, 2_000_001),
        "a list of 5000 lists": lists + struct.pack("<IIQ", 9, 9, 5000) + b"\0" * 60_000,
        "are announced": b"GGUF" + struct.pack("<IQQ", 3, 50_001, 0) + b"\0" * 2_000_000,
        "impossibly large": gguf(has_tokens=False).replace(
            struct.pack("<QQ", 256, 10), struct.pack("<QQ", 2**64 - 1, 2**64 - 1)
        ),
        "ends at offset": lists + struct.pack("<IIQ", 9, 8, 2) + struct.pack("<Q", 2**64 - 1),
    }
    for words, content in crafted.items():
        with pytest.raises(AndonError) as told:
            gguf_header(content, "m", is_whole=True)
        assert words in told.value.reason
    for part in (b"[],", b"{},", b"1,"):
        content = b'{"a":[' + part * 2_000_001 + b"1]}"
        with pytest.raises(AndonError, match="names more than 200000 tensors"):
            parse_header(content, len(content), "m")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers(-(2**70), 2**70) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
     "intermediate_size", "vocab_size", "head_dim", "sliding_window", "layer_types", "text_config",
     "vision_config", "quantization_config", "torch_dtype", "num_experts", "moe_intermediate_size",
     "num_experts_per_tok", "first_k_dense_replace", "kv_lora_rank", "q_lora_rank",
     "mlp_only_layers", "moe_layer_freq", "sliding_window_pattern", "max_window_layers",
     "tie_word_embeddings", "rope_scaling", "max_position_embeddings", "multi_query",
     "expansion_ratio"]
)  # fmt: skip


@given(st.dictionaries(NAMES, JSON_VALUES | st.integers(0, 4096), max_size=6), st.integers(1, 8))
def test_no_config_breaks_an_estimate(more: dict[str, Any], tp: int) -> None:
    value: dict[str, Any] = {"per_gpu": None}
    with contextlib.suppress(AndonError):
        facts = config_facts({**SMALL, **more}, "m")
        value = document(
            estimate_answer(estimate(facts, EstimateOptions(tp=tp), capacities_on("2xH100")), None)
        )
    numbers = [one for one in (value["per_gpu"] or {}).values() if one is not None]
    assert all(type(one) is int and one >= 0 for one in numbers)
    json.dumps(value, allow_nan=False)


@given(st.integers(0, 400), st.binary(max_size=12))
def test_no_bytes_break_a_header(place: int, changed: bytes) -> None:
    for content, read in (
        (gguf(), lambda bad: facts_in(bad)),
        (tensors(5)[8:], lambda bad: parse_header(bad, len(bad), "m")),
    ):
        at = place % len(content)
        with contextlib.suppress(AndonError):
            read(content[:at] + changed + content[at + len(changed) :])


def test_a_folder_of_one_file(tmp_path: Path) -> None:
    write(tmp_path / "m" / "config.json", SMALL)
    write(tmp_path / "m" / "model.safetensors", tensors(500))
    found = model_facts(str(tmp_path / "m"), {})
    assert (found.source, found.confidence) == (FactSource.SAFETENSORS, EstimateConfidence.HIGH)
    assert (found.weights_bytes, found.parameters, found.name) == (2000, 1000, "m")
    alone = model_facts(str(tmp_path / "m" / "model.safetensors"), {})
    assert alone.weights_bytes == 2000


def test_a_model_in_several_files_by_its_index(tmp_path: Path) -> None:
    index = {
        "metadata": {"total_size": 9000},
        "weight_map": {"a": "1.safetensors", "b": "2.safetensors"},
    }
    write(tmp_path / "config.json", SMALL)
    write(tmp_path / "model.safetensors.index.json", index)
    write(tmp_path / "1.safetensors", tensors(500))
    partly = model_facts(str(tmp_path), {})
    assert (partly.source, partly.weights_bytes) == (FactSource.INDEX, 9000)
    assert "1 of 2 files are missing" in partly.notes[-1]
    write(tmp_path / "2.safetensors", tensors(700, "F8_E4M3"))
    whole = model_facts(str(tmp_path), {})
    assert (whole.source, whole.weights_bytes) == (FactSource.SAFETENSORS, 2000 + 1400)


def test_the_cache_on_disk_is_found_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "hub" / "models--org--My-8B"
    write(folder / "refs" / "main", b"abc123\n")
    blob = write(folder / "blobs" / "x", tensors(500))
    write(folder / "snapshots" / "abc123" / "config.json", SMALL)
    (folder / "snapshots" / "abc123" / "model.safetensors").symlink_to(blob)
    for environment in (
        {"HF_HUB_CACHE": str(tmp_path / "hub")}, {"HF_HOME": str(tmp_path)},
    ):  # fmt: skip
        found = model_facts("org/My-8B", environment)
        assert (found.weights_bytes, found.name, found.where) == (2000, "org/My-8B", "")
    by_path = model_facts(str(folder), {})
    assert (by_path.weights_bytes, by_path.name) == (2000, "org/My-8B")
    other = model_facts("org/Other-8B", {"HF_HOME": str(tmp_path)})
    assert (other.source, other.parameters) == (FactSource.NAME, 8_000_000_000)


def test_a_gguf_file_tells_its_shape_and_its_size(tmp_path: Path) -> None:
    found = model_facts(str(write(tmp_path / "m.gguf", gguf())), {})
    assert (found.source, found.weights_bytes, found.parameters) == (FactSource.GGUF, 1440, 2560)
    assert found.shape is not None
    assert (found.shape.layers, found.shape.kv_heads, found.shape.vocab) == (2, 2, 10)
    long = gguf().replace(b"GGUF", b"GGUF", 1) + b"\0" * (2 << 20)
    assert model_facts(str(write(tmp_path / "l.gguf", long)), {}).weights_bytes == 1440
    both = model_facts(str(tmp_path), {})
    assert (both.name, both.notes[-1]) == ("l", f"{tmp_path} has 1 more .gguf file: name the one")


def test_a_gguf_model_in_parts_is_counted_whole(tmp_path: Path) -> None:
    for number in (1, 2):
        write(tmp_path / f"m-0000{number}-of-00003.gguf", gguf())
    partly = model_facts(str(tmp_path / "m-00002-of-00003.gguf"), {})
    assert (partly.weights_bytes, partly.confidence) == (2880, EstimateConfidence.LOW)
    assert "1 of 3 parts are missing" in partly.notes[-1]
    write(tmp_path / "m-00003-of-00003.gguf", gguf())
    whole = model_facts(str(tmp_path), {})
    assert (whole.name, whole.weights_bytes, whole.parameters, whole.notes) == ("m", 4320, 7680, ())
    assert whole.confidence is EstimateConfidence.HIGH


def test_an_adapter_is_not_taken_for_its_model(tmp_path: Path) -> None:
    write(tmp_path / "adapter_config.json", {"base_model_name_or_path": "org/My-8B"})
    write(tmp_path / "adapter_model.safetensors", tensors(5))
    with pytest.raises(AndonError, match="is an adapter of org/My-8B") as found:
        model_facts(str(tmp_path), {})
    assert found.value.hint.startswith("andon estimate org/My-8B")
    write(tmp_path / "adapter_config.json", {"base_model_name_or_path": "$(id); rm -rf ~"})
    with pytest.raises(AndonError) as found:
        model_facts(str(tmp_path), {})
    assert found.value.hint.startswith("andon estimate '$(id); rm -rf ~';")


def test_weights_without_a_config_are_still_exact(tmp_path: Path) -> None:
    found = model_facts(str(write(tmp_path / "x.safetensors", tensors(500))), {})
    assert (found.weights_bytes, found.shape) == (2000, None)
    assert found.notes[0] == "x.safetensors is not complete: it has 0 of 2,000 bytes of its tensors"
    assert "no config.json" in found.notes[1]
    value = document(estimate_answer(estimate(found, EstimateOptions()), None))["per_gpu"]
    assert (value["weights_bytes"], value["kv_bytes"], value["activations_bytes"]) == (
        2000,
        None,
        None,
    )
    whole = write(tmp_path / "y.safetensors", tensors(500) + b"\0" * 2000)
    assert not any("complete" in note for note in model_facts(str(whole), {}).notes)


def _broken() -> dict[str, tuple[bytes, str]]:
    whole = gguf()
    deep = b"[" * 100_000
    return {
        "empty.safetensors": (b"", "ends at offset 0"),
        "short.safetensors": (b"\1\2", "ends at offset 2"),
        "zeros.safetensors": (b"\0" * 64, "at offset 0 it says that its header has 0 bytes"),
        "huge.safetensors": (struct.pack("<Q", MOST_HEADER_BYTES + 1), "at offset 0"),
        "torn.safetensors": (tensors(5)[:40], "ends at offset 40"),
        "nojson.safetensors": (struct.pack("<Q", 4) + b"{,,}", "not JSON at offset 9"),
        "notext.safetensors": (struct.pack("<Q", 4) + b'{"\xff\xff', "not text at offset 10"),
        "deep.safetensors": (struct.pack("<Q", len(deep)) + deep, "cannot be read"),
        "list.safetensors": (struct.pack("<Q", 2) + b"[]", "not a table"),
        "none.safetensors": (header({"__metadata__": {}}), "has no tensors"),
        "type.safetensors": (tensors(5, "F99"), "unknown type 'F99'"),
        "side.safetensors": (header({"a": {"dtype": "F32", "shape": [-1]}}), "a side of -1"),
        "big.safetensors": (
            header({"a": {"dtype": "F32", "shape": [1 << 39, 1 << 39]}}), "impossibly large"
        ),
        "zip.gguf": (b"PK\3\4" + b"\0" * 60, "not a GGUF file"),
        "old.gguf": (gguf(version=1), "version 1 at offset 4"),
        "torn.gguf": (whole[:100], "ends at offset 100"),
        "kind.gguf": (gguf(tensor_kind=999), "unknown type 999 at offset"),
        "many.gguf": (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1), "are announced at offset 24"),
        "config.json": (b'{"a":', "not JSON at offset 5"),
        "a.json": (b"\xff\xfe{", "not"),
        "b.json": (b"[]", "not a table"),
        "c.json": (b"{" + b'"a":' * 3, "not JSON at offset"),
        "d.json": (b" " * (2 << 20), "has more than 1 MiB"),
    }  # fmt: skip


def test_a_broken_file_is_one_sentence_with_the_offset(tmp_path: Path) -> None:
    for name, (content, words) in _broken().items():
        folder = tmp_path / name.replace(".", "-")
        with pytest.raises(AndonError) as found:
            model_facts(str(write(folder / name, content)), {})
        assert words in found.value.reason, (name, found.value.reason)
        assert "\n" not in found.value.reason


def test_what_is_no_file_is_one_sentence(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.safetensors")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.gguf").mkdir()
    (tmp_path / "zero.gguf").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    table = {
        "pipe.safetensors": "not a regular file", "pipe.json": "not a regular file",
        "folder.gguf": "contains no model", "zero.gguf": "not a regular file",
        "missing.json": "there is no file", "": "not the name of a model",
    }  # fmt: skip
    for name, words in table.items():
        with pytest.raises(AndonError) as found:
            model_facts(str(tmp_path / name) if name else "", {})
        assert words in found.value.reason, name
    for word, words in {
        "/dev/zero": "not a file that andon knows", "/dev/null/x.gguf": "there is no file",
        "a\0b": "not the name", "../../nowhere/x": "there is no file", "x" * 5000: "not the name",
    }.items():  # fmt: skip
        with pytest.raises(AndonError, match=words):
            model_facts(word, {})


def test_an_index_that_would_take_much_memory_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors.index.json"
    for content, words in (
        (b'{"weight_map":{}}' + b" " * (12 << 20), "has more than 12 MiB"),
        (b'{"weight_map":[' + b"[]," * 20_000 + b"[]]}", "more than 10,000 tables and lists"),
    ):
        write(path, content)
        with pytest.raises(AndonError) as found:
            model_facts(str(tmp_path), {})
        assert words in found.value.reason


def test_an_index_may_not_leave_its_folder(tmp_path: Path) -> None:
    for name in ("../x.safetensors", "/etc/passwd", ".hidden"):
        write(tmp_path / "model.safetensors.index.json", {"weight_map": {"a": name}})
        with pytest.raises(AndonError, match="outside its folder"):
            model_facts(str(tmp_path), {})


def test_the_bytes_of_packed_files_are_divided_as_the_shape_says(tmp_path: Path) -> None:
    from andon.estimate.rules.serving import model_weights_bytes

    write(tmp_path / "config.json", CONFIGS["Qwen2.5-7B-AWQ"])
    write(tmp_path / "model.safetensors", tensors(5_580_000_000 // 8, "I32"))
    found = model_facts(str(tmp_path), {})
    assert found.parameters is not None
    assert 7.6e9 < found.parameters < 7.7e9
    one = model_weights_bytes(found, EstimateOptions())
    two = model_weights_bytes(found, EstimateOptions(tp=2))
    assert one == pytest.approx(5_580_000_000, rel=0.001)
    assert 0.49 < two / one < 0.52


def test_what_cannot_be_read_in_the_cache_is_one_sentence(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--a--b" / "snapshots" / "x"
    snapshot.mkdir(parents=True)
    os.mkfifo(snapshot / "config.json")
    with pytest.raises(AndonError, match="not a regular file"):
        model_facts("a/b", {"HF_HUB_CACHE": str(tmp_path)})


def test_the_home_of_nobody_is_no_model() -> None:
    with pytest.raises(AndonError, match="there is no file"):
        model_facts("~no-such-user/model", {})


def test_an_index_that_names_no_files_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors.index.json", {"weight_map": {"a": [5]}})
    with pytest.raises(AndonError, match="does not name files"):
        model_facts(str(tmp_path), {})
