"""The parts that evaluate alerts, store them and notify people, each in a thread of its own.

State and pending notices are saved before anything is sent: a kill at any moment loses no notice
and repeats at most the message that was being sent. A disk that hangs delays a message by five
seconds and stops none.
"""
