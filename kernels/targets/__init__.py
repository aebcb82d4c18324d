"""The differences between the machines that kernels run on."""
