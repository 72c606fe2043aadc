"""The parts of processes that run until a signal, and the lists that each is made of.

`kinds` has the lists of servers, `agent` and `exporter` their own. A module of parts is imported
for the kinds whose lists name it: a plain server has nothing of a hub or of the demo in memory.
"""
