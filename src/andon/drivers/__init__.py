"""Backends: each package reads one vendor's devices. `reader` is the process that calls them.

A backend is asked card by card, so that seven devices answer while the eighth hangs. `glance` (what
the operating system alone knows) names the devices of a driver that hangs before it answers. A
vendor may be read in several ways, as NVIDIA by NVML and by nvidia-smi: the next is tried when the
first cannot be opened.

In the reader one thread asks the cards in turn: a thread per card would hand the interpreter back
and forth at every driver call, which costs more than the calls. When the parent misses an answer
for 20 ms it nudges, and a second thread continues without the stuck card. Process names come from
another thread, because reading another process's /proc files takes that process's memory lock and
can hang as a driver does. Events (Xids, memory errors) come from one more and are sent apart from
the readings: a card that fell off the bus has none.
"""
