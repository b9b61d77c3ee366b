"""GPU activities, with doubles of CUPTI and of the driver."""
