"""What an administrator does with a cluster: installs, uninstalls, migrates from Kueue and back. The commands are in
``cli``; ``app`` uses ``install`` and ``policies`` when ``serve --install`` starts.
"""
