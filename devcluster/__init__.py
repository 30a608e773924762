"""A real local Kubernetes control plane: tools built from Go modules, provisioning. Imports nothing of ours."""
