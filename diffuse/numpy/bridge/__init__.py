"""The connections of Diffuse arrays with NumPy itself, with other libraries and with error modes."""
