"""The Ray programs of these tests, as their drivers run them."""

PARTS = """
import sys, time
import ray
from andon import ray as andon_ray

@ray.remote(num_gpus=1)
@andon_ray.task(name="part")
def part(seconds):
    time.sleep(seconds)
    return ray.get_gpu_ids()

ray.init(log_to_driver=False)
print("nodes", sorted(ray.get([part.remote(1.5) for _ in range(8)])))
"""
