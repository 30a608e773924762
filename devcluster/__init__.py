"""A real local Kubernetes control plane: tools built from Go modules, provisioning, simulated nodes. Imports nothing
of ours.

`tools` says which programs there are and where they lie, `build` makes them, `certificates`, `components` and `nodes`
say what a control plane is made of, `processes` starts and stops, `controlplane` puts the parts together and
`clusters` names them for the command line.
"""
