"""What the processes of several ranks have in common, whatever carries their data."""
