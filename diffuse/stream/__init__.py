"""The running path: operations come in as index tasks, fused tasks go out to the runtime."""
