"""``kubectl seiretsu top``: a live page in the terminal. Pure: ``model`` (what is known), ``view`` (what is shown) and
``keys`` (what a key does); ``feed`` reads the API server in threads, ``screen`` draws with curses.
"""
