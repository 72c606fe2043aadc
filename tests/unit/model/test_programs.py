"""What people call a process."""

from hypothesis import given
from hypothesis import strategies as st

from andon.model.programs import program_of
from tests.support.rows import rows


@rows(
    ("command", "program"),
    [
        ("python train.py --config llama-8b.yaml", "train.py"),
        ("/usr/bin/python3 -S -E /home/alice/work/train.py", "train.py"),
        ("python3.12 -u -X dev -W ignore pretrain.py", "pretrain.py"),
        ("/opt/venv/bin/python3 /opt/venv/bin/vllm serve meta-llama/Llama-3-8B", "vllm serve"),
        ("vllm serve meta-llama/Llama-3-8B --port 8000", "vllm serve"),
        ("python -m vllm.entrypoints.openai.api_server --model x", "vllm…api_server"),
        ("python -m sglang.launch_server --model x", "sglang.launch_server"),
        ("python -m ipykernel_launcher -f kernel.json", "ipykernel_launcher"),
        ("python -c import torch; torch.zeros(1)", "python -c"),
        ("torchrun --nproc-per-node 8 train.py --lr 3", "train.py"),
        ("python -m torch.distributed.run --nproc-per-node=8 fit.py", "fit.py"),
        ("accelerate launch --config_file a.yaml finetune.py", "finetune.py"),
        ("accelerate launch -m bench.speed", "bench.speed"),
        ("deepspeed --num_gpus=8 run_clm.py", "run_clm.py"),
        ("env CUDA_VISIBLE_DEVICES=1 OMP=4 ./simulate --steps 5", "simulate"),
        ("uv run train.py", "train.py"),
        ("nohup bash run.sh", "run.sh"),
        ("bash -c echo a; ./x.py", "bash -c"),
        ("java -Xmx4g -jar /opt/h2o.jar", "h2o.jar"),
        ("/usr/lib/xorg/Xorg :0 -seat seat0 vt1", "Xorg"),
        ("/opt/ollama/bin/ollama serve", "ollama serve"),
        ("gmx mdrun -deffnm md", "gmx"),
        ("./a.out", "a.out"),
        ("python3", "python3"),
        ("ray::Trainer.train()", "ray::Trainer.train()"),
    ],
)
def test_a_process_is_called_what_it_runs(command: str, program: str) -> None:
    assert program_of(command, command.split()[0].rpartition("/")[2]) == program


def test_without_a_command_it_is_its_name() -> None:
    assert program_of(None, "python3") == "python3"
    assert program_of("", None) is None
    assert program_of("python train.py", None) == "train.py"


@given(st.text(max_size=80), st.none() | st.text(min_size=1, max_size=10))
def test_any_command_has_a_name_and_no_more_than_it_said(command: str, name: str | None) -> None:
    found = program_of(command, name)
    if command.split():
        assert found
        assert all(part in command or part == name for part in found.replace("…", " ").split())
    else:
        assert found == name
