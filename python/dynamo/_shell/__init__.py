"""What ``dynamo.replay`` and ``dynamo.mocker`` share. Users import from those two."""
