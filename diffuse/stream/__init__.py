"""The runtime path: operations enter as index tasks, and fused tasks are passed to the runtime."""
