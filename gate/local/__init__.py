"""The whole gate on one machine: emulators, notifications, and the function."""
