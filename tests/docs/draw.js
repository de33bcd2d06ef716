async ({levels, strokes}) => {
    const draw = await import("/_static/draw.js"), classify = await draw.load();
    const images = levels.slice(0, 5).map((one) => Array.from(draw.toImage(one)));
    const drawn = strokes.map((one) => draw.toLevels(one)), found = [];
    for (const each of [levels, drawn]) {
        const probabilities = [];
        for (const one of each) probabilities.push((await classify(one)).probabilities);
        found.push(probabilities);
    }
    const inCorner = ([x, y]) => [0.02 + 0.1 * x, 0.88 + 0.1 * y];
    const small = strokes.slice(0, 20).map((one) => draw.toLevels(
        one.map((stroke) => stroke.map(inCorner))));
    return [images, drawn, small, ...found];
}
