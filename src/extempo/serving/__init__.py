"""`extempo serve`: programs in files as an HTTP service that gathers requests of different length into batches.

    settings      limits on body, queue, time and concurrency; durations and sizes as people write them
    arrow_bodies  Arrow streams in and out, a row for each sample
    bodies        requests in JSON, npz and Arrow as arrays for a program, and its results as such again
    runners       what runs samples: an open run that samples join and leave, or one call after another
    paces         what a sample takes alone and among others, and hence how it runs
    engine        the thread that runs all models: queues, gathering, deadlines
    models        programs by name and version; reloading
    metrics       counts and times as Prometheus reads them
    description   the OpenAPI document, and what an input looks like
    page          the page to try a model in a browser
    app           routes and answers (starlette)
    gate          who may come in: hosts, tokens, numbers of requests
    server        sockets, signals, patience with slow clients (uvicorn)

Nothing here is loaded by `import extempo`, and starlette and uvicorn (the `serve` extra) by `app` and `server` alone.
"""
