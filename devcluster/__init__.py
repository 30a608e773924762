"""A real local Kubernetes control plane: tools built from Go modules, provisioning, simulated nodes. Imports no other
package of Seiretsu, so its classes may have the names of classes there.

`tools` lists the programs and their paths, `build` builds them, `certificates`, `components` and `nodes` define the
parts of a control plane, `processes` starts and stops, `controlplane` combines the parts and `clusters` names them for
the command line.
"""
