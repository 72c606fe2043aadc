"""Programs of Ray for these tests and for `bench.ray`, as their drivers run them."""

PARTS = """
import json, time
import ray
from andon import ray as andon_ray

@ray.remote(num_gpus=1)
@andon_ray.task(name="part")
def part(seconds):
    began = time.time()
    time.sleep(seconds)
    return time.time() - began, ray.get_gpu_ids(), ray.get_runtime_context().get_node_id()

ray.init(log_to_driver=False)
print(json.dumps(ray.get([part.remote(1.5) for _ in range(8)])))
"""
"""Eight tasks on both nodes: how long each says that it took, and where it was."""

COST = """
import json, os, time
import ray
from andon import ray as andon_ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

ray.init(log_to_driver=False)
(node,) = [one["NodeID"] for one in ray.nodes() if one["Alive"] and one["NodeName"] == "n1"]
alone = {"num_gpus": 1, "num_cpus": 8, "max_calls": 0,
         "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}

@ray.remote(**alone)
def plain():
    return time.process_time()

@ray.remote(**alone)
@andon_ray.task
def leased():
    return time.process_time()

@ray.remote(**alone)
@andon_ray.task(refuse_busy=True)
def careful():
    return time.process_time()

tasks, found = int(os.environ["TASKS"]), {}
rounds = max(1, tasks // 50)
kinds = {"plain": plain, "leased": leased, "careful": careful}
took, cpu = dict.fromkeys(kinds, 0.0), dict.fromkeys(kinds, 0.0)
for kind in kinds.values():
    ray.get([kind.remote() for _ in range(3)])
for _ in range(rounds):
    for name, kind in kinds.items():
        first = ray.get(kind.remote())
        began = time.perf_counter()
        last = ray.get([kind.remote() for _ in range(50)])[-1]
        took[name] += time.perf_counter() - began
        cpu[name] += last - first
print(json.dumps({name: [1000 * took[name] / rounds / 50, 1000 * cpu[name] / rounds / 50]
                  for name in kinds}))
"""
"""Tasks that do nothing, one at a time in a warm worker: milliseconds of wall and of CPU each."""

BUSY = """
import json, os
import ray
from andon import ray as andon_ray

@ray.remote(num_gpus=1, max_retries=20, retry_exceptions=[andon_ray.DeviceBusy])
@andon_ray.task(name="embed", refuse_busy=True)
def embed():
    return ray.get_gpu_ids()

@ray.remote(num_gpus=1, max_retries=0)
@andon_ray.task(name="once", refuse_busy=True)
def once():
    return ray.get_gpu_ids()

ray.init(log_to_driver=False)
try:
    print(json.dumps(["free", ray.get(once.options(num_gpus=4).remote())]))
except andon_ray.DeviceBusy as error:
    print(json.dumps(["busy", str(error)]))
print(json.dumps(["again", ray.get([embed.remote() for _ in range(2)])]))
"""
"""A task that is given a GPU which someone else uses, and one that Ray tries again."""

HELD = """
import os, time
import ray
from andon import ray as andon_ray

@ray.remote(num_gpus=1, max_retries=0)
@andon_ray.task(name="held")
def held():
    time.sleep(1000)

@ray.remote(num_gpus=0.5)
@andon_ray.actor(name="model")
class Model:
    def pid(self):
        return os.getpid()

ray.init(log_to_driver=False)
model, task = Model.remote(), held.remote()
print("model", ray.get(model.pid.remote()), flush=True)
try:
    ray.get(task)
except ray.exceptions.WorkerCrashedError:
    print("crashed", flush=True)
ray.kill(model)
print("killed", flush=True)
time.sleep(1000)
"""
"""A task and an actor that hold GPUs; the test kills the worker of the task."""

IDLE = """
import ray
from andon import ray as andon_ray

ray.init(log_to_driver=False)
names = {one["NodeID"]: one["NodeName"] for one in ray.nodes()}
for gpus in (1, 3, 5):
    found = andon_ray.prefer_idle(gpus)
    print(gpus, found if isinstance(found, str) else f"{names[found.node_id]} {found.soft}")
"""
"""Which node is preferred for one, three and five GPUs."""
