"""`andon top`: the interactive view.

Plain functions without a terminal: the state, what each action does (`reducers`), the keys, what is
known (`scene`), the screen as lines (`screen`, `views`). With a terminal: the first picture before
Textual is imported (`opening`), the app, a canvas that paints changed lines, a driver that waits
for keys without a timer.
"""
