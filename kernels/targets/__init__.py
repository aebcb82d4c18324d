"""What differs between the machines that kernels run on."""
