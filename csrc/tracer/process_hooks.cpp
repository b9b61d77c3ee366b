// What happens at load, fork, exec and exit.
