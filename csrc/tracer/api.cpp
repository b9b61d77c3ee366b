// The C function table (api.h) over the recorder.
