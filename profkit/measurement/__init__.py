"""How long: workers, sampling, stopping, statistics, environment and the result they leave."""
