"""Static functions, module by module; `static_agreement` has what the tests share."""
